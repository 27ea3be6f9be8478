//! Fuzz targets: a function for each thing that is read from outside. It takes any bytes, and panics where a property does not hold.

mod answer;
mod corpus;
mod cursor;
mod glob;
mod http;
mod json;
mod ledger;
mod line;
mod predicate;
mod stream;
mod tool;

pub use answer::answer;
pub use corpus::{pack, read, unpack};
pub use cursor::cursor;
pub use glob::glob;
pub use http::http;
pub use json::json;
pub use line::line;
pub use predicate::predicate;
pub use stream::stream;
pub use tool::tool;

/// Stands in inputs for what no error quotes.
const PAYLOAD: &str = "xyzzy";

/// What is read, or nothing: an error that quotes what it was given is none.
fn accepted<T, E: std::fmt::Display>(read: Result<T, E>) -> Option<T> {
    read.map_err(|error| assert!(!error.to_string().contains(PAYLOAD), "it quotes: {error}")).ok()
}

/// A target. It panics where a property of the input does not hold.
pub type Target = fn(&[u8]);

/// All targets, with their names.
pub const TARGETS: [(&str, Target); 9] = [
    ("answer", answer),
    ("cursor", cursor),
    ("glob", glob),
    ("http", http),
    ("json", json),
    ("line", line),
    ("predicate", predicate),
    ("stream", stream),
    ("tool", tool),
];
