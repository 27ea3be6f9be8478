//! The names of actions that the flow carries out itself, so that no tool may have them.

/// The action that says the text of the answer.
pub const REPLY: &str = "REPLY";
/// The action that ignores the message.
pub const IGNORE: &str = "IGNORE";
