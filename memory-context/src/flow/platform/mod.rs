//! Where messages come from, and where answers go: how the places and the people of a platform become rooms, worlds and entities.
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

/// Where answers are said, held as `Arc<dyn Platform>`.
#[async_trait]
pub trait Platform: Send + Sync + 'static {
    /// Says a message in its room. Dropping the future ends it.
    ///
    /// A message is said at least once: where the process ends before it is kept that it was said, it is said again, by this process or
    /// another, and where the call is late or its error has an unknown outcome, it is said once more. Its id is the same then, so a platform
    /// that knows the ids of what it said can drop the repetition. An error that is sure that nothing was said has the outcome
    /// [`NotDone`](memory_core::Outcome::NotDone).
    async fn say(&self, message: &Message) -> Result<()>;
}

impl fmt::Debug for dyn Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Platform")
    }
}
