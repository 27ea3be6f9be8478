//! Providers about the conversation: messages, attachments and facts.

mod attachments;
mod facts;
mod recent_messages;

pub(super) use attachments::Attachments;
pub(super) use facts::Facts;
pub(super) use recent_messages::RecentMessages;
