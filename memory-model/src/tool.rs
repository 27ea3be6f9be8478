//! The tools that a model may call, and its calls.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::schema::Schema;

/// A tool as a model is told of it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// By what the model calls it. OpenAI takes `a-z`, `A-Z`, `0-9`, `_` and `-`, at most 64 of them.
    pub name: String,
    /// What it does and when to call it, for the model.
    pub description: String,
    /// What its arguments have to satisfy: the schema of an object.
    pub parameters: Arc<Schema>,
}

/// A call of a tool, as the model wrote it: nothing of it is checked.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// By what the result names the call; no two calls of a completion have the same.
    pub id: String,
    /// The tool; possibly one that was never offered.
    pub name: String,
    /// The arguments as JSON text; possibly none that is valid. `{}` where the model wrote nothing.
    pub arguments: String,
}

impl fmt::Debug for ToolCall {
    /// What the model wrote stays out of logs: only sizes show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolCall({} bytes of name, {} of arguments)", self.name.len(), self.arguments.len())
    }
}
