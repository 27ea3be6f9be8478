//! Whole conversations over a real engine, with a model that the test plays: where messages, answers and time race.

mod actions;
mod model;
mod races;
mod stage;
