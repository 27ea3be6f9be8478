//! Loss of power: what is on the disk of an engine when it stops at any moment.
//!
//! A [`Recorder`] is preloaded into the process that writes, be it a server or the test itself, and notes each write and each sync. [`Play`] makes
//! random calls on the engine meanwhile, and notes which have returned. From that, [`Recording::check`] makes the files as they would be had the
//! power failed behind any of these records: with the writes that no sync has followed ([`Loss`]) kept, dropped or torn. A [`Machine`] lets the engine
//! come up on each of these images, which must have everything that was acknowledged, the call in flight as a whole or not at all, and nothing else, by
//! whatever index it is asked.

mod disk;
mod event;
mod image;
mod machine;
mod play;
mod points;
mod recorder;
mod recording;
mod report;
mod workload;

pub use disk::Loss;
pub use image::Image;
pub use machine::{Booted, Machine};
pub use play::Play;
pub use points::Points;
pub use recorder::Recorder;
pub use recording::Recording;
pub use report::{Failure, Report, Wrong};
