//! The built-in tools: what an agent can do without a host.

mod find;
mod forget;
mod look_up;
mod nothing;
mod remember;
mod room;

use crate::state::ContextParts;

/// The tools that an agent has without a host.
///
/// | name | does |
/// |---|---|
/// | `NONE` | nothing, where nothing but words is called for |
/// | `FOLLOW_ROOM`, `UNFOLLOW_ROOM` | attends to all that is said in a room, or no longer |
/// | `MUTE_ROOM`, `UNMUTE_ROOM` | is silent in a room until it is called, or no longer |
/// | `REMEMBER` | changes what is kept for the prompt |
/// | `FIND_FACTS` | finds facts by their meaning, where the agent has an embedder |
/// | `LOOK_UP` | tells what dynamic providers know, to a model that calls tools |
/// | `FORGET` | takes a fact away, or puts what is right in its place |
///
/// `REPLY` and `IGNORE` belong to the flow.
pub fn built_in_tools() -> ContextParts {
    let memory = [remember::tool(), find::tool(), look_up::tool(), forget::tool()];
    let tools = [nothing::tool()].into_iter().chain(room::tools()).chain(memory);
    ContextParts { tools: tools.collect(), ..ContextParts::default() }
}
