//! Who is there, and how they stand to each other.

mod entities;
mod relationships;
mod roles;

pub(super) use entities::Entities;
pub(super) use relationships::Relationships;
pub(super) use roles::Roles;
