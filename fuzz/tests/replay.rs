//! Gives the kept inputs to their targets.

use std::panic::catch_unwind;

use agent_memory_fuzz::{TARGETS, read};

fn replay(name: &str) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target");
    let inputs = read(name).expect("a corpus");
    assert!(!inputs.is_empty(), "a target without an input");
    for (at, input) in inputs.iter().enumerate() {
        if catch_unwind(|| target(input)).is_err() {
            panic!("line {} of corpus/{name}.jsonl: \"{}\"", at + 1, input.escape_ascii());
        }
    }
}

/// A test for each target.
macro_rules! replays {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn no_target_is_left_out() {
            assert_eq!(TARGETS.map(|(name, _)| name), [$(stringify!($name)),*]);
        }
    };
}

replays!(answer cursor glob http json line predicate stream tool);
