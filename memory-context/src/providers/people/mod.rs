//! Providers about people: participants, relationships and roles.

mod entities;
mod relationships;
mod roles;

pub(super) use entities::Entities;
pub(super) use relationships::Relationships;
pub(super) use roles::Roles;
