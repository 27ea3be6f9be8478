//! Providers about the agent: its character, its tools and its prompt memory.

mod action_state;
mod actions;
mod anxiety;
mod capabilities;
mod character;
mod evaluators;
mod prompt_memory;
mod provider_list;
mod reflections;

pub(super) use action_state::ActionHistory;
pub(super) use actions::Actions;
pub use anxiety::{Advice, Anxiety};
pub(super) use capabilities::Capabilities;
pub(super) use character::Character;
pub(super) use evaluators::Evaluators;
pub(super) use prompt_memory::Prefetch;
pub(super) use provider_list::Providers;
pub(super) use reflections::Hindsight;
