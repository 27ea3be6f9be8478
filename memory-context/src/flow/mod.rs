//! The message flow: how an agent answers messages.
//!
//! [`MessageService`] processes a message from its receipt to the evaluators. Its parts: [`platform`] maps rooms and people of platforms
//! to records, [`AttachmentReader`] describes attachments, and [`RespondRules`] decide whether to answer.
//! [`Templates`](crate::template::Templates) are the prompts, [`answer`] parses the answers of models, [`learn`] stores what was learned,
//! and [`Events`] report the progress of runs.

pub mod answer;
mod asking;
mod attachments;
mod dialogue;
mod door;
mod event;
mod events;
mod journal;
mod learning;
mod limits;
mod metered;
mod model_reader;
mod piece;
pub mod platform;
mod post;
mod queue;
mod recover;
mod remember;
mod respond;
mod run;
mod service;
mod sink;
mod streamed;
mod tap;
mod templates;
mod voice;
mod way;

pub use attachments::{AttachmentContent, AttachmentKind, AttachmentReader, MAX_SHOWN, MAX_SHOWN_BYTES};
pub use dialogue::{MAX_CALLS, MAX_ROUNDS};
pub use event::{End, Event, EventKind, FlowStep, RunContext};
pub use events::{Events, Notice};
pub(crate) use journal::{Journal, Recorded};
pub use learning::{Learned, ReflectionEvaluator, learn};
pub use limits::Limits;
pub use model_reader::ModelReader;
pub use piece::{Answer, Piece};
pub use platform::Platform;
pub use post::Posted;
pub use recover::Recovered;
pub(crate) use respond::is_own;
pub use respond::{BYPASS_SOURCES, BYPASS_TYPES, RespondRules, Why};
pub(crate) use run::Run;
pub use service::MessageService;
pub(crate) use tap::Tap;
pub use templates::{POST_PROVIDERS, REFLECTION_PROVIDERS, RESPOND_PROVIDERS};
pub use way::{Incoming, MAX_RECEIVED};
