//! The flow of messages: the parts from which an agent answers what it receives.

mod actions;
pub mod answer;
mod ask;
mod events;
pub mod platform;
mod queue;
mod respond;
mod run;
mod templates;

pub use actions::run_actions;
pub use ask::ask;
pub use events::{Event, EventKind, Events, Notice};
pub use queue::{Claim, RoomQueues, Ticket};
pub use respond::{Decision, Received, RespondRules, Why, is_own, is_reflection_due};
pub use run::{End, Run, RunContext, Step};
pub use templates::{POST_PROVIDERS, REFLECTION_PROVIDERS, RESPOND_PROVIDERS, Templates};
