//! The flow of messages, over records in memory and a model whose answers the test gives when it wants to.

mod actions;
mod attachments;
mod decisions;
mod embedding;
#[path = "../common/engine.rs"]
mod engine;
mod ledger;
mod memory;
mod outcomes;
mod races;
mod recovery;
mod registration;
mod rooms;
mod stage;
