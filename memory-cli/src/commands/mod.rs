//! The commands, one file per group.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod compose;
pub(crate) mod conformance;
pub(crate) mod copy;
pub(crate) mod doctor;
pub(crate) mod document;
pub(crate) mod export;
pub(crate) mod health;
pub(crate) mod import;
pub(crate) mod migrate;
pub(crate) mod prompt;
pub(crate) mod query;
pub(crate) mod quickstart;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod store;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use memory_context::records::AgentId;
use memory_context::state::Character;
use memory_core::Error;

use crate::input::{self, Input};

/// Success, or 1 when something was reported on the way.
fn exit_code(has_failures: bool) -> ExitCode {
    if has_failures { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Writes a report to the file that an option names.
fn write_report(file: &Path, report: impl AsRef<[u8]>) -> anyhow::Result<()> {
    fs::write(file, report).with_context(|| format!("{} can't be written", input::name(file)))
}

/// Who the agent is: what an option says, or one that is called like its memory.
fn character(option: Option<&Input>, agent: &AgentId) -> anyhow::Result<Character> {
    let parse = |json: &str| {
        serde_json::from_str(json).map_err(|error| Error::invalid("not the JSON of a character").with_source(error))
    };
    match option {
        Some(input) => input.read("--character", parse),
        None => Ok(Character::named(agent.as_str())),
    }
}
