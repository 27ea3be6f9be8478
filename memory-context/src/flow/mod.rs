//! The flow of messages: how an agent answers what it receives.
//!
//! [`MessageService`] goes the way from the receipt to the evaluators. Its parts: [`platform`] says where a message comes from,
//! [`RoomQueues`] when it has its turn, [`AttachmentReader`] what came with it and [`RespondRules`] whether it is answered;
//! [`Templates`] hold what a model is asked, and [`answer`] is what it said; [`learn`] keeps what was learned, and [`Events`] tell
//! what became of it.

mod actions;
pub mod answer;
mod attachments;
mod evaluate;
mod event;
mod events;
mod journal;
mod learn;
pub mod platform;
mod post;
mod queue;
mod recover;
mod reflect;
mod respond;
mod run;
mod service;
mod sink;
mod templates;
mod voice;

pub use attachments::{AttachmentKind, AttachmentReader, Found};
pub use event::{End, Event, EventKind, RunContext, Step};
pub use events::{Events, Notice};
pub(crate) use journal::{Journal, Recorded};
pub use learn::{Learned, learn};
pub use post::Posted;
pub use queue::{Claim, RoomQueues, Ticket};
pub use recover::Recovered;
pub use reflect::ReflectionEvaluator;
pub use respond::{Decision, Received, RespondRules, Why, is_own, is_reflection_due};
pub use run::Run;
pub use service::{Incoming, Limits, MessageService};
pub use templates::{POST_PROVIDERS, REFLECTION_PROVIDERS, RESPOND_PROVIDERS, Templates};
pub use voice::Platform;
