//! The flow of messages: the parts from which an agent answers what it receives.

pub mod answer;
pub mod platform;
mod respond;

pub use respond::{Decision, Received, RespondRules, Why, is_own, is_reflection_due};
