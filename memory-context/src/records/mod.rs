//! Typed records of an agent's conversations, over the ledger and the documents of any engine.
//!
//! Begin with [`Records`]. Messages, reflections and choices are memories of the ledger. Facts, entities and their components, rooms,
//! worlds, participants, relationships and settings are documents, in collections with reserved names, so that no plugin reaches them.
//! All records belong to one agent, and each read names an [`Audience`]. [`Person`] finds everything about an entity, to be erased.

mod audience;
mod choice;
mod component;
mod entity;
mod entry;
mod fact;
mod facts;
mod handle;
mod id;
mod layout;
mod link;
mod message;
mod messages;
mod participant;
mod person;
mod question;
mod reflection;
mod relationship;
mod room;
mod setting;
mod table;
mod world;

pub use audience::Audience;
pub use choice::{AWAITING_CHOICE, Choice, ChoiceOption, Choices, NewChoice};
pub use component::Components;
pub use entity::{Entities, Entity};
pub(crate) use entry::{Delivery, Entry, EntryState, Said};
pub use fact::{Fact, FactQuery, FoundFact, NewFact, RecalledFacts, Remembered};
pub use facts::Facts;
pub use handle::Records;
pub use id::{AgentId, EntityId, MAX_ID_BYTES, RoomId, WorldId};
pub(crate) use layout::is_fact_collection;
pub use message::{ActionResult, ActionStatus, Attachment, ChannelType, Message, MessageContent, NewMessage};
pub use messages::{Added, Messages};
pub(crate) use messages::{Described, OpenMessage, Taken, WHY, may_be_repeated, repeated};
pub use participant::{Participant, Participants, RoomState};
pub use person::{Person, Traces};
pub use reflection::{Reflection, Reflections};
pub use relationship::{Relationship, Relationships};
pub(crate) use room::DIRECT;
pub use room::{Room, Rooms};
pub use setting::{Secret, Setting, SettingDefinition, SettingValue, Settings};
pub(crate) use table::metadata;
pub use world::{World, WorldRole, Worlds};
