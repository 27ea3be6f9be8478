//! An agent, the people who talk to it, and everything visible of it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{Stream, StreamExt};
use memory_context::flow::platform::{Origin, telegram};
use memory_context::flow::{End, EventKind, Events, FlowStep, Incoming, Limits, MessageService, Notice, Platform};
use memory_context::records::{AgentId, Audience, EntityId, Message, NewMessage, Records, RoomId};
use memory_context::state::{Character, Composer, ContextParts, ContextProvider, Services};
use memory_context::tool::Tool;
use memory_core::{Clock, MemoryId, Result, SystemClock};
use memory_model::Retries;
use memory_model::openai::{OpenAiConfig, OpenAiModel};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::model::{Model, within};

/// The parts of the agent beside the defaults.
#[derive(Default)]
pub(crate) struct Setting {
    pub(crate) tools: Vec<Tool>,
    pub(crate) providers: Vec<Arc<dyn ContextProvider>>,
    pub(crate) limits: Limits,
}

/// Eliza, with her memory in a file.
pub(crate) struct Stage {
    pub(crate) model: Model,
    pub(crate) records: Records,
    service: Arc<MessageService>,
    said: mpsc::UnboundedReceiver<Message>,
    notices: Pin<Box<dyn Stream<Item = Notice> + Send>>,
    _folder: TempDir,
}

/// The agent's account on the platform.
const ACCOUNT: i64 = 1;
const ANA: i64 = 2;

/// Records what the agent says.
#[derive(Debug)]
struct Ear(mpsc::UnboundedSender<Message>);

#[async_trait]
impl Platform for Ear {
    async fn say(&self, message: &Message) -> Result<()> {
        // The test may have ended.
        let _ = self.0.send(message.clone());
        Ok(())
    }
}

impl Stage {
    pub(crate) async fn set(setting: Setting) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = format!("sqlite://{}", folder.path().join("memory.db").display());
        let provider = memory_runtime::open(&url).expect("a provider");
        provider.init().await.expect("ready");
        let records = Records::new(provider, AgentId::parse("eliza").expect("valid"));
        let services = Services::new(records.clone(), Character::named("Eliza"));
        let parts = ContextParts { tools: setting.tools, providers: setting.providers, ..ContextParts::default() };
        let composer = Composer::builder(services).built_in().parts(parts);
        let model = Model::start().await;
        let mut config = OpenAiConfig::new(&model.url, "small");
        config.tool_calls = false;
        // The limits of the flow are under test.
        config.deadline_ms = 1 << 40;
        config.retries = Retries::NONE;
        let endpoint = OpenAiModel::new(config).expect("a model");
        let (ear, said) = mpsc::unbounded_channel();
        let events = Events::new(1_000, Arc::new(SystemClock));
        let notices = Box::pin(events.subscribe());
        let composer = composer.build().expect("names differ");
        let service = MessageService::new(composer, Arc::new(endpoint), Arc::new(Ear(ear)), events);
        let service = Arc::new(service.with_limits(setting.limits));
        Self { model, records, service, said, notices, _folder: folder }
    }

    /// Ana writes to the agent in private; returns the end of the run.
    pub(crate) async fn writes(&self, text: &str) -> JoinHandle<End> {
        self.receives(ANA, ANA, text, None).await
    }

    /// Somebody writes in a private chat; the message has this id on the platform.
    pub(crate) async fn receives(&self, chat: i64, user: i64, text: &str, id: Option<&str>) -> JoinHandle<End> {
        let origin = origin(chat, user);
        origin.ensure(&self.records).await.expect("kept");
        let origin = origin.seen_by(self.records.agent(), &EntityId::of_telegram(ACCOUNT).expect("valid"));
        let mut message = NewMessage::new(origin.message(text), SystemClock.now());
        message.external_id = id.map(str::to_owned);
        let service = Arc::clone(&self.service);
        tokio::spawn(async move { service.receive(Incoming { message, is_addressed: false }).await })
    }

    /// The platform delivers to the agent what it said itself.
    pub(crate) async fn echoes(&self, text: &str) -> JoinHandle<End> {
        self.receives(ANA, ACCOUNT, text, None).await
    }

    /// The next text of the agent, and its room.
    pub(crate) async fn hears(&mut self) -> (RoomId, String) {
        let message = within(self.said.recv()).await.expect("the agent is there");
        (message.content.room, message.content.text)
    }

    /// The messages of Ana's private chat, oldest first.
    pub(crate) async fn stored(&self) -> Vec<Message> {
        self.stored_of(ANA).await
    }

    /// The messages of a private chat, oldest first.
    pub(crate) async fn stored_of(&self, chat: i64) -> Vec<Message> {
        let Origin { room, author, .. } = origin(chat, chat);
        let mut messages = self.records.messages().recent(&Audience::new(room.id, author.id), 100).await.expect("read");
        messages.reverse();
        messages
    }

    /// The texts in Ana's private chat, oldest first.
    pub(crate) async fn texts(&self) -> Vec<String> {
        self.stored().await.into_iter().map(|message| message.content.text).collect()
    }

    /// Ends it: the agent said nothing that the test did not hear, asked nothing that was not answered, and each of its
    /// runs ended once. Returns the runs, in the order in which they began.
    pub(crate) async fn ends(mut self) -> Vec<Course> {
        assert!(self.model.is_idle(), "nothing more is asked");
        drop(self.service);
        assert_eq!(within(self.said.recv()).await, None, "nothing more is said");
        let mut runs = BTreeMap::<MemoryId, Course>::new();
        while let Some(notice) = within(self.notices.next()).await {
            let Notice::Event(event) = notice else { panic!("{notice:?}") };
            match (event.kind, runs.get_mut(&event.run.id)) {
                (EventKind::Started, None) => {
                    let course =
                        Course { id: event.run.id, room: event.run.room.clone(), steps: Vec::new(), end: None };
                    runs.insert(event.run.id, course);
                }
                (EventKind::Step(step), Some(Course { steps, end: None, .. })) => steps.push(step),
                (EventKind::Ended(ended), Some(Course { end: end @ None, .. })) => *end = Some(ended),
                (kind, run) => panic!("{kind:?} in {run:?}"),
            }
        }
        assert!(runs.values().all(|run| run.end.is_some()), "{runs:?}");
        // Ids of one process ascend.
        runs.into_values().collect()
    }
}

/// The end of a message's run.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) id: MemoryId,
    pub(crate) room: RoomId,
    pub(crate) steps: Vec<FlowStep>,
    pub(crate) end: Option<End>,
}

/// The author and the chat of a message.
fn origin(chat: i64, user: i64) -> Origin {
    let chat = telegram::Chat { id: chat, kind: telegram::ChatKind::Private, title: None };
    let author =
        telegram::TelegramUser { id: user, first_name: format!("User {user}"), last_name: None, username: None };
    Origin::of_telegram(&chat, None, &author).expect("valid")
}

/// The end of a message's run.
pub(crate) async fn end(of: JoinHandle<End>) -> End {
    within(of).await.expect("no panic")
}
