//! Whole conversations over a real engine, with a model whose answers the test gives: races between messages, answers
//! and time.

mod actions;
mod model;
mod races;
mod stage;
