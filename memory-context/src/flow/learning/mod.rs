//! What an agent learns when a room has gone on: its evaluators are run, one of them reflects, and what that found is kept.

mod evaluate;
mod learn;
mod reflect;

pub use learn::{Learned, learn};
pub use reflect::ReflectionEvaluator;
