//! The example agent, as a user meets it.

#[path = "../examples/tasks.rs"]
#[allow(dead_code)]
mod tasks;

use tasks::Agent;

#[tokio::test]
async fn the_agent_remembers_from_one_run_to_the_next() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("data/agent.db");
    let agent = Agent::start(&file).await.expect("starts");
    let nothing = "I remember nothing of it yet, and keep it in mind.";
    assert_eq!(agent.hear("I adopted a cat").await.expect("an answer"), nothing);
    assert_eq!(agent.hear("Ben plays chess").await.expect("an answer"), nothing);
    agent.stop().await.expect("ends");

    let agent = Agent::start(&file).await.expect("starts again");
    assert!(agent.recover().await.expect("looks").is_empty());
    assert_eq!(agent.hear("Who has a cat?").await.expect("an answer"), "I remember: I adopted a cat");
    agent.stop().await.expect("ends");
}
