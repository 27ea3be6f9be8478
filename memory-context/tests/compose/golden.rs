//! A recorded conversation, composed from SQLite: the files beside it have the texts. `MEMORY_WRITE_GOLDEN=1` writes
//! them again.
//!
//! SQLite weighs a word by how rare it is among all documents of the file. So facts that answer a question about
//! equally well can change places when the records of a conversation are stored as other documents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory_context::records::{
    Attachment, ChannelType, Entity, EntityId, Message, MessageContent, NewFact, NewMessage, Records, Room, RoomId,
};
use memory_context::state::{Budget, Character, ComposeOptions, Composer, Services, State, Turn};
use memory_core::{ManualClock, Timestamp};
use serde::Deserialize;

use crate::stage::records_on;

/// A line of the conversation.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    trigger: Utterance,
    created_at: Timestamp,
    metadata: Labels,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Utterance {
    speaker: String,
    text: String,
    image_caption: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Labels {
    session: u32,
    dia_id: String,
}

/// Two people, one of whom is the agent.
struct Conversation {
    records: Records,
    messages: Vec<Message>,
}

impl Conversation {
    /// The messages in one room, and everything that was said in the first session as a fact of its author.
    async fn recorded() -> Self {
        let records = records_on(memory_runtime::open("sqlite::memory:").expect("opens"), "Melanie").await;
        let room = RoomId::parse("locomo-26").expect("valid");
        records.rooms().ensure(&Room::new(room.clone(), ChannelType::Dm)).await.expect("keeps");
        for name in ["Caroline", "Melanie"] {
            let id = EntityId::parse(name).expect("valid");
            records.entities().ensure(&Entity::new(id.clone(), name)).await.expect("keeps");
            records.participants().join(&room, &id).await.expect("joins");
        }
        let mut messages = Vec::new();
        for line in std::fs::read_to_string(data("locomo-26.jsonl")).expect("the conversation").lines() {
            let line: Line = serde_json::from_str(line).expect("a line");
            let speaker = EntityId::parse(&line.trigger.speaker).expect("valid");
            let mut content = MessageContent::new(room.clone(), speaker.clone(), &line.trigger.text);
            content.attachments.extend(line.trigger.image_caption.map(|caption| Attachment {
                id: line.metadata.dia_id.clone(),
                url: format!("https://example.com/{}", line.metadata.dia_id),
                description: Some(caption),
                ..Attachment::default()
            }));
            let new = NewMessage::new(content, line.created_at).with_external_id(&line.metadata.dia_id);
            let message = records.messages().add(new).await.expect("stores");
            if line.metadata.session == 1 {
                let fact = NewFact::new(room.clone(), speaker.clone(), speaker, &line.trigger.text, line.created_at);
                records.facts().remember(fact.with_source(message.id)).await.expect("keeps");
            }
            messages.push(message);
        }
        Self { records, messages }
    }

    async fn compose(&self, message: Message, options: ComposeOptions) -> State {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_685_020_700_000).expect("in range")));
        let services = Services::new(self.records.clone(), Character::named("Melanie")).with_clock(clock);
        let composer = Composer::builder(services).built_in().build().expect("a composer");
        composer.compose_state(&Turn::new(message), &options).await
    }

    /// A further message of Caroline's, with a question.
    async fn asks(&self, text: &str) -> Message {
        let last = self.messages.last().expect("messages");
        let caroline = EntityId::parse("Caroline").expect("valid");
        let content = MessageContent::new(last.content.room.clone(), caroline, text);
        let time = Timestamp::from_millis(last.created_at.as_millis() + 15_000).expect("in range");
        self.records.messages().add(NewMessage::new(content, time)).await.expect("stores")
    }
}

#[tokio::test]
async fn the_conversation_goes_into_the_prompt() {
    let conversation = Conversation::recorded().await;
    let last = conversation.messages.last().expect("messages").clone();
    let state = conversation.compose(last, ComposeOptions::only(["RECENT_MESSAGES", "TIME"])).await;
    check("locomo-26.conversation.txt", &state.text);
    let said =
        state.provider("RECENT_MESSAGES").expect("it ran").data["recentMessages"].as_array().expect("a list").len();
    assert_eq!(said, 32, "of 35");
}

#[tokio::test]
async fn what_was_said_answers_questions() {
    let conversation = Conversation::recorded().await;
    for (question, file, evidence) in [
        ("When did Caroline go to the LGBTQ support group?", "locomo-26.support-group.txt", "support group yesterday"),
        ("When did Melanie paint a sunrise?", "locomo-26.sunrise.txt", "lake sunrise last year"),
    ] {
        let message = conversation.asks(question).await;
        let state = conversation.compose(message, ComposeOptions::only(["FACTS"])).await;
        assert!(state.text.contains(evidence), "{}", state.text);
        check(file, &state.text);
    }
}

#[tokio::test]
async fn a_budget_keeps_the_newest_lines() {
    let conversation = Conversation::recorded().await;
    let last = conversation.messages.last().expect("messages").clone();
    let options = ComposeOptions::only(["RECENT_MESSAGES"]).budget(Budget::bytes(1_000));
    let state = conversation.compose(last, options).await;
    assert!(state.text.len() <= 1_000);
    check("locomo-26.budget.txt", &state.text);
}

fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file)
}

fn check(file: &str, text: &str) {
    let text = format!("{text}\n");
    if std::env::var_os("MEMORY_WRITE_GOLDEN").is_some() {
        std::fs::write(data(file), &text).expect("a file that can be written");
    }
    let expected = std::fs::read_to_string(data(file)).expect("the golden text");
    assert!(text == expected, "{file} has another text than this:\n{text}");
}
