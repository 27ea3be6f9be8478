//! The tools that a model may call, and the calls that it makes.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::schema::Schema;

/// The description of a tool that a model may call.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The name that the model uses in a call. OpenAI takes `a-z`, `A-Z`, `0-9`, `_` and `-`, at most 64 characters.
    pub name: String,
    /// What the tool does and when to call it, for the model.
    pub description: String,
    /// The schema of the arguments, which are a JSON object.
    pub parameters: Arc<Schema>,
}

/// A tool call exactly as the model wrote it: nothing in it is validated.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id by which the result names the call; unique within a completion.
    pub id: String,
    /// The name of the tool, which may be one that was never offered.
    pub name: String,
    /// The arguments as JSON text, which may be invalid. `{}` if the model wrote none.
    pub arguments: String,
}

impl fmt::Debug for ToolCall {
    /// Shows only sizes, so that what the model wrote stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolCall({} bytes of name, {} of arguments)", self.name.len(), self.arguments.len())
    }
}
