//! The built-in tools of an agent.

mod find;
mod forget;
mod look_up;
mod nothing;
mod remember;
mod room;

use crate::state::ContextParts;

/// Returns the built-in tools of an agent.
///
/// | name | does |
/// |---|---|
/// | `NONE` | nothing, if only words are needed |
/// | `FOLLOW_ROOM`, `UNFOLLOW_ROOM` | starts or stops answering every message of a room |
/// | `MUTE_ROOM`, `UNMUTE_ROOM` | starts or stops answering only if the agent is addressed or called by name |
/// | `REMEMBER` | changes the prompt memory |
/// | `FIND_FACTS` | searches facts also by meaning, if the agent has an embedder |
/// | `LOOK_UP` | shows what dynamic providers know, to a model that calls tools |
/// | `FORGET` | removes or corrects a fact |
///
/// `REPLY` and `IGNORE` are not tools; the flow handles them.
pub fn built_in_tools() -> ContextParts {
    let memory = [remember::tool(), find::tool(), look_up::tool(), forget::tool()];
    let tools = [nothing::tool()].into_iter().chain(room::tools()).chain(memory);
    ContextParts { tools: tools.collect(), ..ContextParts::default() }
}
