//! Where messages come from: how the places and the people of a platform become rooms, worlds and entities.
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

pub use origin::Origin;
