//! The whole agent, over SQLite, with a model over HTTP whose answers the test gives.

mod asking;
mod built;
mod endpoints;
#[path = "../common/engine.rs"]
mod engine;
#[path = "../conversations/http.rs"]
mod http;
mod members;
#[path = "../conversations/model.rs"]
mod model;
mod registration;
mod replacing;
mod shutdown;
mod stage;
mod streaming;
mod tools;
mod triggers;

/// The program that the README shows is the one that is compiled.
#[test]
fn the_readme_shows_the_example() {
    let (_, example) =
        include_str!("../../examples/agent.rs").split_once("\n\n").expect("a program behind its documentation");
    assert!(include_str!("../../README.md").contains(example));
}
