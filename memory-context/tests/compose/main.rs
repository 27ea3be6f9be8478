//! State composition: every example call of the interface that it comes from, and what it promises beyond.

mod budget;
mod built_in;
mod cache;
mod failures;
mod golden;
mod order;
mod registration;
mod selection;
mod stage;
