//! An agent that follows a group, acts by the actions of answers in XML, and says more after them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use conformance::CaseResult;
use memory_context::flow::{Events, Incoming, MessageService};
use memory_context::prompt::{MemoryLoadContext, MemoryStore, PromptMemory};
use memory_context::records::{
    Audience, ChannelType, EntityId, MessageContent, NewMessage, Records, RoomId, RoomState,
};
use memory_context::state::{Character, Composer, ContextParts, Evaluation, Evaluator, EvaluatorInfo, Services};
use memory_context::tool::{Tool, ToolOutput};
use memory_core::{Error, History, MAX_LIMIT, MemoryProvider, MemoryQuery, Record, Result, SystemClock, Timestamp};
use memory_model::openai::{OpenAiConfig, OpenAiModel};

use crate::deadly::{Deadly, effect};
use crate::model::{Asked, Question};
use crate::place::Place;
use crate::play::{INSTANCE, Loud, again, assert_said_once, count, once, said};
use crate::story::{Story, Told, kill_everywhere};

const ROOM: &str = "plaza";
const SECRET: &str = "The treasure is in Lima";
const FOOTNOTE: &str = "By the way";
const QUESTION: &str = "Where is it?";
/// The model's text and memory update after it has the results.
const ANSWER: &str = "<response><thought>t</thought><actions>REPLY</actions><text>Hi</text>\
    <memory><update><store>user</store><text>Ana likes tea</text></update></memory></response>";

/// A tool whose result is for a single answer.
fn secret(folder: &Path) -> Tool {
    let folder = folder.to_owned();
    let tool = Tool::new("SECRET", move |(), _| {
        effect(&folder, "SECRET");
        async { Ok(ToolOutput::new(SECRET).private()) }
    });
    tool.repeatable()
}

/// Says something after each answer.
struct Speaking {
    info: EvaluatorInfo,
    folder: PathBuf,
}

#[async_trait]
impl Evaluator for Speaking {
    fn info(&self) -> &EvaluatorInfo {
        &self.info
    }

    async fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<()> {
        effect(&self.folder, "SPEAKING");
        evaluation.say(FOOTNOTE).await.map(drop)
    }
}

fn service(place: &Place, provider: &Arc<dyn MemoryProvider>) -> Result<MessageService> {
    let folder = &place.folder;
    let services = Services::new(Records::new(Deadly::engine(provider), place.agent()?), Character::named("Eliza"));
    let mut info = EvaluatorInfo::new("SPEAKING", "Says more");
    info.is_awaited = true;
    let mut parts = ContextParts::default().with_evaluator(Arc::new(Speaking { info, folder: folder.clone() }));
    parts.tools = vec![once(folder), again(folder), secret(folder)];
    let composer = Composer::builder(services).built_in().parts(parts).build()?;
    let mut config = OpenAiConfig::new(&place.endpoint, &place.model);
    config.tool_calls = false;
    let model = Arc::new(OpenAiModel::new(config)?);
    let events = Events::new(100, Arc::new(SystemClock));
    MessageService::new(composer, model, Arc::new(Loud(folder.clone())), events).with_instance(INSTANCE)
}

/// What somebody says in the group. Each delivery is the same.
fn incoming() -> Result<Incoming> {
    let mut content = MessageContent::new(RoomId::parse(ROOM)?, EntityId::parse("ana")?, QUESTION);
    content.channel_type = ChannelType::Group;
    let message = NewMessage::new(content, Timestamp::from_millis(1_700_000_000_000)?).with_external_id("7");
    Ok(Incoming { message, is_addressed: false })
}

/// The life of the other process.
pub(crate) async fn live(part: &str, place: &Place, provider: &Arc<dyn MemoryProvider>) -> CaseResult {
    let service = Arc::new(service(place, provider)?);
    if part == "receives" {
        service.receive(incoming()?).await;
    }
    service.recover().await?;
    service.shutdown().await;
    Ok(())
}

/// One message that is addressed to nobody, and its answer.
#[derive(Default)]
struct Followed {
    /// How often a private result was looked up again.
    looked_up_again: usize,
}

#[async_trait]
impl Story for Followed {
    const LIFE: &'static str = "followed receives";
    const THEN: &'static [&'static str] = &["followed recovers", "followed receives"];

    async fn begin(&self, records: &Records) -> Result<()> {
        let (room, agent) = (RoomId::parse(ROOM)?, records.agent().entity());
        records.participants().join(&room, &agent).await?;
        records.participants().set_state(&room, &agent, Some(RoomState::Followed)).await
    }

    fn answer(&self, asked: Asked, _: &str) -> Option<Asked> {
        assert_eq!(asked.about, Question::Answer, "{}", asked.prompt);
        let is_told = asked.prompt.contains(SECRET);
        if is_told {
            asked.writes(ANSWER)
        } else {
            asked.acts("ONCE, AGAIN, SECRET", "", "")
        }
        None
    }

    async fn check(&mut self, told: &Told<'_>) -> CaseResult {
        let effects = &told.effects;
        let said = said(effects);
        assert_said_once(&said);
        assert!(["Looking", "Looked", "Hi"].iter().all(|text| said.contains_key(text)), "{told:?}");
        let unclear = said.keys().filter(|text| text.starts_with("ONCE: ")).count();
        assert!(count(effects, "ONCE") + unclear >= 1 && count(effects, "ONCE") <= 1, "{told:?}");
        for name in ["AGAIN", "SECRET"] {
            assert!((1..=2).contains(&count(effects, name)), "{name}, {told:?}");
        }
        // Evaluators do not run again after a kill, and an unheard text stays in the room.
        let spoken = count(effects, "SPEAKING");
        assert!(if told.is_cut { spoken <= 1 } else { spoken == 1 }, "{told:?}");
        let is_heard = said.contains_key(FOOTNOTE);
        assert!((told.is_cut || is_heard) && usize::from(is_heard) <= spoken, "{told:?}");
        assert_eq!(said.len(), 3 + unclear + usize::from(is_heard), "nothing else is said, {told:?}");
        self.looked_up_again += usize::from(count(effects, "SECRET") > 1);

        let audience = Audience::new(RoomId::parse(ROOM)?, EntityId::parse("ana")?);
        let mut stored = told.records.messages().recent(&audience, 100).await?;
        let footnotes = stored.iter().filter(|message| message.content.text == FOOTNOTE).count();
        assert!((usize::from(is_heard)..=spoken).contains(&footnotes), "{told:?}");
        stored.retain(|message| message.content.text != FOOTNOTE);
        let results = stored.iter().filter(|message| message.content.action_result.is_some()).count();
        assert_eq!((stored.len(), results), (7 + unclear, 3), "each once, {told:?}");
        let memory = PromptMemory::new(told.provider.documents());
        let question = stored.iter().find(|message| message.content.text == QUESTION).ok_or("the question")?;
        let of = MemoryLoadContext::of(&told.place.agent()?, question);
        let kept = memory.read(&of, MemoryStore::User).await?;
        assert_eq!(kept.as_deref(), Some("Ana likes tea"), "kept once, {told:?}");
        // The room, the journal and the versions of the message do not contain it.
        for message in &stored {
            let history = told.provider.history(&History::of(message.id).limit(MAX_LIMIT)?).await?;
            assert!(!history.versions.is_empty(), "{told:?}");
            for version in history.versions {
                let Some(Record::Memory(memory)) = version.record else { return Err("a version of a memory".into()) };
                assert!(!json(&memory)?.contains(SECRET), "{told:?}");
            }
        }
        let all = told.provider.query(&MemoryQuery::builder().all().limit(1_000).build()?).await?.memories;
        assert!(!json(&all)?.contains(SECRET), "{told:?}");
        Ok(())
    }
}

fn json(kept: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(kept).map_err(|error| Error::invalid("no JSON").with_source(error))
}

pub(crate) async fn killed(url: &str) -> CaseResult {
    let mut story = Followed::default();
    let cut = kill_everywhere(url, &mut story).await?;
    assert!(cut > 15 && story.looked_up_again > 0, "{cut} lives were cut, {} behind the secret", story.looked_up_again);
    Ok(())
}
