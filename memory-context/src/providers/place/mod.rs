//! Where and when the conversation takes place, and what waits there.

mod choice;
mod settings;
mod time;
mod world;

pub(super) use choice::Choice;
pub(super) use settings::Settings;
pub use time::Time;
pub(super) use world::World;
