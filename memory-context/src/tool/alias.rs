//! Aliases: other names that a host gives to tools.

use memory_core::{Error, Result};

use super::definition::{MAX_NAME, Tool, plain};
use super::reserved::{IGNORE, REPLY};

/// Another name by which a model may call a tool, beside the tool's own name and its similes. The tool may come from any source, and may
/// also be [`REPLY`] or [`IGNORE`]. Case and word separators are ignored.
///
/// An alias is removed with its tool, and stays when the tool is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolAlias {
    /// The other name; 1 to [`MAX_NAME`] bytes, unique among all aliases, tools and similes.
    pub name: String,
    /// The name of the tool.
    pub tool: String,
}

impl ToolAlias {
    /// Fails with `InvalidInput` if an alias equals the name of a tool or another alias, is empty or too long, or names no tool. The error
    /// gives the number of the alias, not its name, since a configuration file may hold anything there.
    pub(crate) fn check_all(aliases: &[Self], tools: &[Tool]) -> Result<()> {
        for (at, alias) in aliases.iter().enumerate() {
            let (name, wanted) = (&alias.name, plain(&alias.name));
            if wanted.is_empty() || name.len() > MAX_NAME {
                let message = format!("alias {} has no name of 1 to {MAX_NAME} bytes", at + 1);
                return Err(Error::invalid(message));
            }
            let taken = tools.iter().flat_map(|tool| tool.similes().iter().map(String::as_str).chain([tool.name()]));
            let mut taken = taken.chain([REPLY, IGNORE]).chain(aliases[..at].iter().map(|alias| alias.name.as_str()));
            if taken.any(|taken| plain(taken) == wanted) {
                let others = "the name of a tool, a simile or an alias before it";
                return Err(Error::invalid(format!("alias {} can't be told from {others}", at + 1)));
            }
            if !alias.is_of(tools) {
                return Err(Error::invalid(format!("alias {} names no existing tool", at + 1)));
            }
        }
        Ok(())
    }

    /// Whether its tool is among these, or is [`REPLY`] or [`IGNORE`].
    pub(crate) fn is_of(&self, tools: &[Tool]) -> bool {
        [REPLY, IGNORE].contains(&self.tool.as_str()) || tools.iter().any(|tool| tool.name() == self.tool)
    }

    /// Resolves a name: returns the tool if the name is an alias, otherwise the name itself.
    pub(crate) fn meant(aliases: &[Self], name: &str) -> String {
        let wanted = plain(name);
        let alias = aliases.iter().find(|alias| plain(&alias.name) == wanted);
        alias.map_or(name, |alias| &alias.tool).to_owned()
    }
}
