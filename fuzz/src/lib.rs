//! Fuzz targets: a function for each thing that is read from outside. It takes any bytes, and panics if a property does
//! not hold.

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

/// A payload in inputs, which no error may quote.
const PAYLOAD: &str = "xyzzy";

/// The parsed value, or `None` for a refusal. Panics if the error quotes its input.
fn accepted<T, E: std::fmt::Display>(read: Result<T, E>) -> Option<T> {
    read.map_err(|error| assert!(!error.to_string().contains(PAYLOAD), "it quotes: {error}")).ok()
}

/// A target. It panics if a property of the input does not hold.
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
