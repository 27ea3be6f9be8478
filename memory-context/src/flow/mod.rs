//! The flow of messages: the parts from which an agent answers what it receives.
//!
//! [`platform`] says where a message comes from, [`RoomQueues`] when it has its turn and [`RespondRules`] whether it is answered;
//! [`Templates`] hold what a model is asked, [`ask`] asks it, and [`answer`] is what it said; [`run_actions`] does that, [`learn`]
//! keeps what was learned, and [`Events`] tell what became of it.

mod actions;
pub mod answer;
mod ask;
mod attachments;
mod events;
mod learn;
pub mod platform;
mod queue;
mod reflect;
mod respond;
mod run;
mod service;
mod templates;

pub use actions::run_actions;
pub use ask::ask;
pub use attachments::{AttachmentKind, AttachmentReader, Found, read_attachments};
pub use events::{Event, EventKind, Events, Notice};
pub use learn::{Learned, learn};
pub use queue::{Claim, RoomQueues, Ticket};
pub use reflect::ReflectionEvaluator;
pub use respond::{Decision, Received, RespondRules, Why, is_own, is_reflection_due};
pub use run::{End, Run, RunContext, Step};
pub use service::{Incoming, Limits, MessageService, Platform};
pub use templates::{POST_PROVIDERS, REFLECTION_PROVIDERS, RESPOND_PROVIDERS, Templates};
