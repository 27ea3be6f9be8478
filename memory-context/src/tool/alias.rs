//! Names that a host gives to tools of others.

use memory_core::{Error, Result};

use super::definition::{MAX_NAME, Tool, plain};
use crate::flow::answer::{IGNORE, REPLY};

/// One more name by which a model may call a tool, besides the tool's own and its similes: for tools that a host did not make, and for
/// [`REPLY`] and [`IGNORE`]. Case and what separates words don't count.
///
/// It goes away with its tool, and stays where the tool is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolAlias {
    /// What a model may write; 1 to [`MAX_NAME`] bytes. Unique among all aliases, tools and similes.
    pub name: String,
    /// The name of the tool.
    pub tool: String,
}

impl ToolAlias {
    /// `InvalidInput` where one can't be told from a tool or from another alias, is too long, or is of no tool. The error names it by its
    /// number, since what a file has in the place of a name may be anything.
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
                return Err(Error::invalid(format!("alias {} is of no tool that is there", at + 1)));
            }
        }
        Ok(())
    }

    /// Whether its tool is among these, or is a word of the answer.
    pub(crate) fn is_of(&self, tools: &[Tool]) -> bool {
        [REPLY, IGNORE].contains(&self.tool.as_str()) || tools.iter().any(|tool| tool.name() == self.tool)
    }

    /// What a name means: the tool of the alias that it is, else itself.
    pub(crate) fn meant(aliases: &[Self], name: &str) -> String {
        let wanted = plain(name);
        let alias = aliases.iter().find(|alias| plain(&alias.name) == wanted);
        alias.map_or(name, |alias| &alias.tool).to_owned()
    }
}
