//! The flow of messages: the parts from which an agent answers what it receives.

pub mod answer;
