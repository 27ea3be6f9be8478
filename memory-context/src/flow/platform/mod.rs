//! Platforms: how their channels and users map to rooms, worlds and entities, and how answers are said.
//!
//! | Platform | Room | World | Entity |
//! |---|---|---|---|
//! | [`discord`] | channel | server | user |
//! | [`telegram`] | chat, or topic of a chat | group | user |
//! | [`bus`] | topic | namespace | publisher |
//!
//! The ids begin with the name of the platform, so no two platforms share one.

pub mod bus;
pub mod discord;
mod origin;
pub mod telegram;

use std::fmt;

use async_trait::async_trait;
use memory_core::Result;

pub use origin::Origin;

use crate::records::Message;

/// Delivers the answers of an agent. Held as `Arc<dyn Platform>`.
#[async_trait]
pub trait Platform: Send + Sync + 'static {
    /// Says a message in its room. Dropping the future ends the call.
    ///
    /// Delivery is at least once. If the process ends before the delivery is recorded, this process or another says the message again; if
    /// the call is late or its error has an unknown outcome, it is said once more. The id is the same each time, so a platform that
    /// remembers ids can drop the repetition. Return an error with the outcome [`NotDone`](memory_core::Outcome::NotDone) if certainly
    /// nothing was said.
    async fn say(&self, message: &Message) -> Result<()>;
}

impl fmt::Debug for dyn Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Platform")
    }
}
