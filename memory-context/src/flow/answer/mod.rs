//! The answers of models as types, parsed from XML or JSON with any text around it.
//!
//! Only the tags of an answer are markup. Any other `<` or `&` is text, so a model need not escape it. An answer has at most
//! [`MAX_ANSWER`] bytes.

mod extract;
mod fields;
mod json;
mod message;
mod mistake;
mod post;
mod reflection;
mod respond;
mod shape;
mod xml;

pub use extract::MAX_ANSWER;
pub(in crate::flow) use extract::{THINKING, is_without_text};
pub use message::{MAX_ACTIONS, MessageAnswer, Mode};
pub(super) use message::{form_in, is};
pub use mistake::Mistake;
pub use post::PostAnswer;
pub use reflection::{LearnedFact, LearnedRelationship, ReflectionAnswer};
pub use respond::RespondAnswer;

pub use crate::tool::reserved::{IGNORE, REPLY};
