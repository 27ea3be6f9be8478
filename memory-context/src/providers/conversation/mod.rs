//! What was said, what came with it, and what is known that has to do with it.

mod attachments;
mod facts;
mod recent_messages;

pub(super) use attachments::Attachments;
pub(super) use facts::Facts;
pub(super) use recent_messages::RecentMessages;
