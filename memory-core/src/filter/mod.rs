//! Filters: conditions on the fields of a memory or a document, built in Rust or written as a SQL-like predicate (F1 to F5).
//!
//! ```
//! use memory_core::Filter;
//! use memory_core::filter::Field;
//!
//! let built = Filter::field("metadata.topic")?
//!     .eq("rust")
//!     .and(Field::CreatedAt.gt(1_700_000_000_000_i64))
//!     .and(Field::metadata(["tags"]).any("news").or(Field::Text.ilike("%birthday%")?))
//!     .and(Field::metadata(["odd key"]).is_null().negate());
//! let text = "metadata.topic = 'rust' AND createdAt > 1700000000000 \
//!             AND ('news' = ANY(metadata.tags) OR text ILIKE '%birthday%') AND metadata.\"odd key\" IS NOT NULL";
//! assert_eq!(Filter::parse(text)?, built);
//! assert_eq!(built.to_string(), text);
//! # Ok::<(), memory_core::Error>(())
//! ```

mod ast;
mod build;
mod field;
mod like;
mod limits;
mod parse;
mod subject;
#[cfg(test)]
mod tests;
mod token;
mod value;

pub use ast::{Comparison, Filter};
pub use field::Field;
pub use like::LikePattern;
pub use limits::{MAX_CONDITIONS, MAX_DEPTH, MAX_FILTER_BYTES, MAX_VALUES, RecordSource};
pub use subject::Subject;
pub use value::Value;
