//! The built-in actions: what an agent can do without a host.
//!
//! | name | does |
//! |---|---|
//! | `NONE` | nothing, where nothing but words is called for |
//! | `FOLLOW_ROOM`, `UNFOLLOW_ROOM` | attends to a room, or no longer |
//! | `MUTE_ROOM`, `UNMUTE_ROOM` | is silent in a room until it is called, or no longer |
//! | `REMEMBER` | changes what is kept for the prompt |
//! | `FORGET` | takes a fact away, or puts what is right in its place |
//!
//! `REPLY` and `IGNORE` belong to the flow.

mod forget;
mod nothing;
mod remember;
mod room;

use std::sync::Arc;

use serde_json::Value;

use crate::state::{Action, ContextParts, Values};

pub use forget::Forget;
pub use nothing::DoNothing;
pub use remember::Remember;
pub use room::FollowRoom;

/// All of them.
pub fn built_in() -> ContextParts {
    let mut actions: Vec<Arc<dyn Action>> = vec![Arc::new(DoNothing::default())];
    actions.extend(FollowRoom::all().map(|action| Arc::new(action) as Arc<dyn Action>));
    actions.extend([Arc::new(Remember::default()) as Arc<dyn Action>, Arc::new(Forget::default())]);
    ContextParts { actions, ..ContextParts::default() }
}

/// A parameter that is a text, without the white space around it; empty where it is not told.
fn told<'a>(parameters: &'a Values, name: &str) -> &'a str {
    parameters.get(name).and_then(Value::as_str).unwrap_or_default().trim()
}
