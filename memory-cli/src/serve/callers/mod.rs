//! The callers of the server: what they must show, and what a browser keeps instead of a token.

pub(crate) mod door;
pub(crate) mod key;
pub(crate) mod pass;
pub(crate) mod sender;
pub(crate) mod tokens;

use memory_core::{Result, SpaceId, SpaceSelector};

use super::access::{Access, Writable};
use door::Door;
use key::ConsoleKey;
use pass::Pass;

/// The authentication settings: callers and their rights.
#[derive(Debug)]
pub(crate) struct Callers {
    pub(crate) door: Door,
    /// Signs what browsers keep.
    pub(crate) key: ConsoleKey,
    /// The rights over REST of callers without a token of a file.
    pub(crate) rest: Access,
    /// The rights over MCP of such callers.
    pub(crate) mcp: Access,
    /// The host names under which the server is reached, besides those of the machine itself.
    pub(crate) hosts: Vec<String>,
    /// The origins of web pages that may call it, besides its own.
    pub(crate) origins: Vec<String>,
}

impl Callers {
    /// Reserves the space of the agent and everything below it for writes of the agent. Exceptions are callers without a token: over
    /// REST, and over MCP if their writable space lies there.
    pub(crate) fn reserve(&mut self, space: &SpaceId) -> Result<()> {
        if let Door::Tokens(tokens) = &mut self.door {
            tokens.reserve(space);
        }
        let own = SpaceSelector::under(space)?;
        if !matches!(&self.mcp.writable, Writable::Under(path) if own.matches(path.as_str())) {
            self.mcp.reserve(space);
        }
        Ok(())
    }

    /// Returns the rights of a token over REST; `None` if it is not valid, or if no token is needed.
    pub(crate) fn by_token(&self, token: &str) -> Option<&Access> {
        match &self.door {
            Door::Open => None,
            Door::Secret(secret) => secret.is(token).then_some(&self.rest),
            Door::Tokens(tokens) => tokens.find(token),
        }
    }

    /// Like [`by_token`](Self::by_token), for the pass that a browser has instead of a token.
    pub(crate) fn by_pass(&self, pass: &Pass) -> Option<&Access> {
        let stands_for = |digest: &[u8; 32]| pass.stands_for(digest, &self.key);
        match &self.door {
            Door::Open => None,
            Door::Secret(secret) => secret.has_digest(stands_for).then_some(&self.rest),
            Door::Tokens(tokens) => tokens.find_by_digest(stands_for),
        }
    }
}
