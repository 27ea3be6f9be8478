//! Loss of power: which data an engine still has when the machine stops at any moment.
//!
//! A [`Recorder`] is preloaded into the process that writes, a server or the test itself, and logs each write and each sync. [`Play`] makes
//! random calls on the engine meanwhile, and logs which have returned. [`Recording::check`] then builds the files as they would be if the
//! power had failed after any record of the log: the writes that no sync has followed are kept, dropped or torn ([`Loss`]). A [`Machine`]
//! starts the engine on each of these images. Everything acknowledged must be there, the call in flight as a whole or not at all, and
//! nothing else, whichever index answers.

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
