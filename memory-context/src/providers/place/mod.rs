//! Providers about the place and the time: world, settings, open choices and time.

mod choice;
mod settings;
mod time;
mod world;

pub(super) use choice::Choice;
pub(super) use settings::Settings;
pub use time::Time;
pub(super) use world::World;
