//! State composition: every example call of the original interface, and further guarantees.

mod budget;
mod built_in;
mod cache;
mod failures;
mod golden;
mod order;
mod registration;
mod selection;
mod stage;
