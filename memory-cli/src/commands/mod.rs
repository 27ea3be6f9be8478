//! The commands, one file per group.

#[cfg(feature = "bench")]
pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod compose;
#[cfg(feature = "suite")]
pub(crate) mod conformance;
pub(crate) mod copy;
pub(crate) mod doctor;
pub(crate) mod document;
pub(crate) mod embed;
pub(crate) mod erase;
pub(crate) mod eval;
pub(crate) mod export;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod import;
mod longmemeval;
pub(crate) mod migrate;
pub(crate) mod probe;
pub(crate) mod prompt;
pub(crate) mod query;
pub(crate) mod quickstart;
pub(crate) mod recall;
#[cfg(any(feature = "bench", feature = "suite"))]
mod report;
pub(crate) mod retention;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod spaces;
pub(crate) mod store;
pub(crate) mod sweep;
pub(crate) mod watch;

use std::process::ExitCode;

use memory_context::records::AgentId;
use memory_context::state::Character;
use memory_core::Error;

use crate::input::Input;

/// The exit code: 0, or 1 if a failure was reported.
fn exit_code(has_failures: bool) -> ExitCode {
    if has_failures { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The character of the agent: that of the option, or one with the agent's name.
fn character(option: Option<&Input>, agent: &AgentId) -> anyhow::Result<Character> {
    let parse = |json: &str| {
        serde_json::from_str(json).map_err(|error| Error::invalid("not the JSON of a character").with_source(error))
    };
    match option {
        Some(input) => input.read("--character", parse),
        None => Ok(Character::named(agent.as_str())),
    }
}
