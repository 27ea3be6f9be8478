//! Learning after an answer: runs the evaluators, one of which reflects, and stores what the reflection found.

mod evaluate;
mod learn;
mod reflect;

pub use learn::{Learned, learn};
pub use reflect::ReflectionEvaluator;
