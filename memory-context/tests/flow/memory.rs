//! What a conversation stores, and how it comes back: prompt memory, facts, relationships, reflections.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use memory_context::embedding::Embedder;
use memory_context::flow::End;
use memory_context::prompt::MemoryStore::{Memory, User};
use memory_context::prompt::{
    MemoryContext, MemoryLoadContext, MemoryStore, MemoryUpdate, PromptMemory, PromptSource, SyncReport,
};
use memory_context::records::{FactQuery, NewFact};
use memory_context::state::{ComposeOptions, Composer, ProviderStatus, Services, Turn};
use memory_context::tool;
use memory_core::{Error, ErrorKind, IdempotencyKey, Result};

use crate::stage::{Call, NOW, Stage, Task, at, audience, entity, once, said, said_in_group, text};

fn prompt_memory(stage: &Stage) -> PromptMemory {
    PromptMemory::new(stage.provider.documents())
}

/// The context of a private message from Ana.
async fn context(stage: &Stage) -> MemoryLoadContext {
    let message = stage.records.messages().add(said("ana", "hello", 99).message).await.expect("stored");
    MemoryLoadContext::of(stage.records.agent(), &message)
}

async fn kept(stage: &Stage, store: MemoryStore) -> String {
    prompt_memory(stage).read(&context(stage).await, store).await.expect("read").unwrap_or_default()
}

/// An answer with a memory update.
fn keeping(updates: &str) -> String {
    text("Noted").replace("</response>", &format!("<memory>{updates}</memory></response>"))
}

/// An answer with one action and its parameters.
fn doing(action: &str, parameters: &serde_json::Value) -> String {
    let parameters = serde_json::json!({ action: parameters });
    format!("<response><thought>t</thought><actions>{action}</actions><parameters>{parameters}</parameters></response>")
}

async fn with_tools() -> Stage {
    Stage::with_parts(tool::built_in_tools()).await
}

#[tokio::test]
async fn prompt_memory_goes_into_every_prompt() {
    let mut stage = Stage::new().await;
    let updates = [MemoryUpdate::add(User, "Ana likes tea"), MemoryUpdate::add(Memory, "The deadline is Friday")];
    prompt_memory(&stage).sync(&context(&stage).await, &updates).await.expect("kept");
    let run = stage.receive(said("ana", "hello", 1));
    let call = stage.asked().await;
    assert!(call.prompt.starts_with("## About You\n\nAna likes tea\n\n## Memory\n\nThe deadline is Friday"));
    call.answer(text("Hi"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    // What she said in private is not shown where others listen; the room's own memory is.
    let run = stage.receive(said_in_group("ana", "Eliza?", 1));
    let call = stage.asked().await;
    assert_eq!(call.task, Task::Decide);
    assert!(!call.prompt.contains("Ana likes tea") && call.prompt.contains("The deadline is Friday"));
    call.answer(crate::stage::IGNORE);
    run.await.expect("no panic");
}

/// The prompt memory of a stage, which is made before the stage.
type Later = Arc<OnceLock<PromptMemory>>;

/// The updates of one call, and their key.
type Batch = (IdempotencyKey, Vec<MemoryUpdate>);

/// A prompt memory that records its calls.
#[derive(Debug)]
struct Listening {
    kept: Later,
    calls: Arc<Mutex<Vec<Batch>>>,
}

#[async_trait]
impl PromptSource for Listening {
    async fn prefetch(&self, context: &MemoryLoadContext) -> Result<Option<MemoryContext>> {
        self.kept.get().expect("set").prefetch(context).await
    }

    async fn sync(
        &self,
        context: &MemoryLoadContext,
        batch: &IdempotencyKey,
        updates: &[MemoryUpdate],
    ) -> Result<SyncReport> {
        self.calls.lock().expect("no panic holds it").push((batch.clone(), updates.to_vec()));
        self.kept.get().expect("set").sync_once(context, batch, updates).await
    }
}

#[tokio::test]
async fn what_an_answer_keeps_is_kept_once_and_shown_from_then_on() {
    let calls = Arc::<Mutex<_>>::default();
    let (heard, kept_by) = (Arc::clone(&calls), Later::default());
    let memory = Arc::clone(&kept_by);
    let source = |services: Services| services.with_prompt_memory(Arc::new(Listening { kept: memory, calls: heard }));
    let mut stage = Stage::with(source, |service| service).await;
    kept_by.set(prompt_memory(&stage)).expect("once");
    let answer = keeping(
        "<update><store>user</store><change>add</change><text>Ana likes tea</text></update>
         <update><store>memory</store><change>add</change><text>Ana moves to Lima</text></update>",
    );
    let (end, _) = stage.play(said("ana", "I like tea", 3), |_| answer.clone()).await;
    assert_eq!((end, stage.platform.texts()), (End::Completed, vec!["Noted".to_owned()]));
    assert_eq!(
        (kept(&stage, User).await, kept(&stage, Memory).await),
        ("Ana likes tea".into(), "Ana moves to Lima".into())
    );
    // The work on the message is repeated, as after a crash: nothing is stored twice.
    let message =
        stage.stored().await.into_iter().find(|message| message.content.text == "I like tea").expect("stored");
    let mut calls = calls.lock().expect("no panic holds it").clone();
    let (batch, updates) = calls.remove(0);
    assert_eq!((calls.len(), updates.len()), (0, 2));
    let context = MemoryLoadContext::of(stage.records.agent(), &message);
    let again = prompt_memory(&stage).sync_once(&context, &batch, &updates).await.expect("known");
    assert!(again.updates.iter().all(|update| update.repeated), "{again:?}");

    let remove = keeping("<update><change>remove</change><match>Lima</match></update>");
    let run = stage.receive(said("ana", "I stay", 2));
    let call = stage.asked().await;
    assert!(call.prompt.contains("Ana likes tea") && call.prompt.contains("Ana moves to Lima"));
    call.answer(remove);
    run.await.expect("no panic");
    assert_eq!((kept(&stage, User).await, kept(&stage, Memory).await), ("Ana likes tea".into(), String::new()));
}

#[tokio::test]
async fn what_is_too_much_to_keep_loses_no_answer() {
    let mut stage = Stage::new().await;
    let long = "x".repeat(40 << 10);
    let answer = keeping(&format!("<update><text>{long}</text></update>"));
    let (end, _) = stage.play(said("ana", "hello", 1), |_| answer.clone()).await;
    assert_eq!((end, stage.platform.texts().len()), (End::Completed, 1));
    assert_eq!(kept(&stage, Memory).await, "");
}

#[tokio::test]
async fn the_tool_remember_adds_replaces_and_removes_within_the_caps() {
    let mut stage = with_tools().await;
    let long = "x".repeat(40 << 10);
    for (parameters, succeeds, user, memory) in [
        (serde_json::json!({"store": "user", "text": "Ana likes tea"}), true, "Ana likes tea", ""),
        (serde_json::json!({"text": "Friday\nis near"}), true, "Ana likes tea", "Friday\nis near"),
        (serde_json::json!({"change": "remove", "match": "near"}), true, "Ana likes tea", "Friday"),
        (serde_json::json!({"store": "USER", "change": "replace", "text": "Bo"}), true, "Bo", "Friday"),
        (serde_json::json!({"store": "team", "text": "a"}), false, "Bo", "Friday"),
        (serde_json::json!({"change": "replace", "text": " "}), false, "Bo", "Friday"),
        (serde_json::json!({"text": 7}), false, "Bo", "Friday"),
        (serde_json::json!({"text": long}), false, "Bo", "Friday"),
    ] {
        let (end, _) =
            stage.play(said("ana", "keep this", 1), |call| once(call, &doing("REMEMBER", &parameters))).await;
        assert_eq!(end, End::Completed);
        let results = stage.results().await;
        let is_done = results.last().expect("a result").status == memory_context::records::ActionStatus::Completed;
        assert_eq!(is_done, succeeds, "{}", parameters.to_string().chars().take(80).collect::<String>());
        assert_eq!((kept(&stage, User).await.as_str(), kept(&stage, Memory).await.as_str()), (user, memory));
    }
}

/// A prompt memory that is down.
#[derive(Debug)]
struct Down;

#[async_trait]
impl PromptSource for Down {
    async fn prefetch(&self, _: &MemoryLoadContext) -> Result<Option<MemoryContext>> {
        Err(Error::new(ErrorKind::Unavailable, "down"))
    }

    async fn sync(&self, _: &MemoryLoadContext, _: &IdempotencyKey, _: &[MemoryUpdate]) -> Result<SyncReport> {
        Err(Error::new(ErrorKind::Unavailable, "down"))
    }
}

#[tokio::test]
async fn a_prompt_memory_that_is_down_contributes_nothing_and_is_told() {
    let mut stage = Stage::with(|services| services.with_prompt_memory(Arc::new(Down)), |service| service).await;
    let answer = keeping("<update><text>a</text></update>");
    let (end, _) = stage.play(said("ana", "hello", 1), |_| answer.clone()).await;
    assert_eq!((end, stage.platform.texts().len()), (End::Completed, 1));
    let message = stage.stored().await.remove(0);
    let services = stage.services().with_prompt_memory(Arc::new(Down));
    let composer = Composer::builder(services).built_in().build().expect("names differ");
    let state = composer.compose_state(&Turn::new(message), &ComposeOptions::default()).await;
    assert_eq!(state.outcome("PROMPT_MEMORY").expect("it ran").status, ProviderStatus::Failed);
    assert!(state.provider("PROMPT_MEMORY").is_none() && !state.text.is_empty());
}

/// A prompt memory that fails once in its own way, and then stores its updates.
#[derive(Debug)]
struct Failing {
    kept: Later,
    failures: Mutex<Vec<Failure>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    Hang,
    Panic,
    Refuse,
}

impl Failing {
    async fn fail(&self) -> Result<()> {
        let failure = self.failures.lock().expect("no panic holds it").pop();
        match failure {
            Some(Failure::Hang) => pending().await,
            Some(Failure::Panic) => panic!("as a test"),
            Some(Failure::Refuse) => Err(Error::new(ErrorKind::Unavailable, "down")),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl PromptSource for Failing {
    async fn prefetch(&self, context: &MemoryLoadContext) -> Result<Option<MemoryContext>> {
        self.kept.get().expect("set").prefetch(context).await
    }

    async fn sync(
        &self,
        context: &MemoryLoadContext,
        batch: &IdempotencyKey,
        updates: &[MemoryUpdate],
    ) -> Result<SyncReport> {
        self.fail().await?;
        self.kept.get().expect("set").sync_once(context, batch, updates).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_prompt_memory_that_hangs_or_panics_loses_no_answer_and_is_told_again() {
    for failure in [Failure::Hang, Failure::Panic, Failure::Refuse] {
        let kept_by = Later::default();
        let memory = Arc::clone(&kept_by);
        let source = |services: Services| {
            services.with_prompt_memory(Arc::new(Failing { kept: memory, failures: Mutex::new(vec![failure]) }))
        };
        let mut stage = Stage::with(source, |service| service).await;
        kept_by.set(prompt_memory(&stage)).expect("once");
        stage.composer.add(tool::built_in_tools()).expect("new names");
        // The answer after the action has the same update, so the failed update is tried again.
        let update = "<update><text>Ana likes tea</text></update>";
        let first =
            format!("<response><thought>t</thought><actions>FOLLOW_ROOM</actions><memory>{update}</memory></response>");
        let answers = Mutex::new(vec![keeping(update), first]);
        let next = |_: &Call| answers.lock().expect("no panic holds it").pop().expect("two questions");
        let (end, tasks) = stage.play(said("ana", "I like tea", 3), next).await;
        assert_eq!((end, tasks.len()), (End::Completed, 2), "{failure:?}");
        assert_eq!(kept(&stage, Memory).await, "Ana likes tea", "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_tool_remember_tells_of_a_prompt_memory_that_fails() {
    for (failure, told) in
        [(Failure::Hang, "no answer within 10000 ms"), (Failure::Panic, "the prompt memory panicked")]
    {
        let kept_by = Later::default();
        let memory = Arc::clone(&kept_by);
        let source = |services: Services| {
            services.with_prompt_memory(Arc::new(Failing { kept: memory, failures: Mutex::new(vec![failure]) }))
        };
        let mut stage = Stage::with(source, |service| service).await;
        kept_by.set(prompt_memory(&stage)).expect("once");
        stage.composer.add(tool::built_in_tools()).expect("new names");
        let parameters = serde_json::json!({ "text": "Ana likes tea" });
        let (end, _) =
            stage.play(said("ana", "keep this", 1), |call| once(call, &doing("REMEMBER", &parameters))).await;
        assert_eq!(end, End::Completed);
        let stored = stage.stored().await;
        assert!(stored.iter().any(|message| message.content.text.contains(told)), "{failure:?}: {stored:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_prompt_memory_that_hangs_or_panics_is_left_out_of_the_prompt() {
    #[derive(Debug)]
    struct Silent(Failure);
    #[async_trait]
    impl PromptSource for Silent {
        async fn prefetch(&self, _: &MemoryLoadContext) -> Result<Option<MemoryContext>> {
            if self.0 == Failure::Panic { panic!("as a test") } else { pending().await }
        }

        async fn sync(&self, _: &MemoryLoadContext, _: &IdempotencyKey, _: &[MemoryUpdate]) -> Result<SyncReport> {
            pending().await
        }
    }
    for (failure, status) in [(Failure::Hang, ProviderStatus::TimedOut), (Failure::Panic, ProviderStatus::Failed)] {
        let mut stage =
            Stage::with(move |services| services.with_prompt_memory(Arc::new(Silent(failure))), |service| service)
                .await;
        let (end, _) = stage.play(said("ana", "hello", 1), |_| text("Hi")).await;
        assert_eq!(end, End::Completed, "{failure:?}");
        let message = stage.stored().await.remove(0);
        let state = stage.composer.compose_state(&Turn::new(message), &ComposeOptions::default()).await;
        assert_eq!(state.outcome("PROMPT_MEMORY").expect("it ran").status, status);
    }
}

#[tokio::test]
async fn a_model_corrects_and_forgets_facts_of_its_scope() {
    let mut stage = with_tools().await;
    let fact = |room: &str, subject: &str, text: &str| {
        let new = NewFact::new(crate::stage::room(room), entity(subject), entity("eliza"), text, at(NOW - 99));
        new.with_kind("status")
    };
    for new in [fact("r", "ana", "Ana lives in Lima"), fact("r", "bo", "Bo is ill"), fact("s", "bo", "Bo is poor")] {
        stage.records.facts().remember(new).await.expect("kept");
    }
    let known = async |stage: &Stage| {
        let facts = stage.records.facts();
        let here = facts.newest(&audience(), 10).await.expect("read");
        let there = memory_context::records::Audience::new(crate::stage::room("s"), entity("bo"));
        let texts = here.into_iter().chain(facts.newest(&there, 10).await.expect("read"));
        let mut texts: Vec<_> = texts.map(|fact| format!("{} ({})", fact.text, fact.kind)).collect();
        texts.sort();
        texts.dedup();
        texts
    };
    let correct =
        serde_json::json!({"fact": "[2023-11-14, status] ana lives in Lima.", "correction": "Ana lives in Cusco"});
    stage.play(said("ana", "I moved", 3), |call| once(call, &doing("FORGET", &correct))).await;
    assert_eq!(known(&stage).await, ["Ana lives in Cusco (status)", "Bo is ill (status)", "Bo is poor (status)"]);
    for (fact, succeeds) in [("Bo is ill", true), ("Bo is ill", false), ("Bo is poor", false), ("", false)] {
        let forget = serde_json::json!({ "fact": fact });
        stage.play(said("ana", "forget it", 2), |call| once(call, &doing("FORGET", &forget))).await;
        let status = stage.results().await.last().expect("a result").status;
        assert_eq!(status == memory_context::records::ActionStatus::Completed, succeeds, "{fact}");
    }
    assert_eq!(
        known(&stage).await,
        ["Ana lives in Cusco (status)", "Bo is poor (status)"],
        "what is known elsewhere stays"
    );
}

#[tokio::test]
async fn each_answer_counts_an_interaction() {
    let mut stage = Stage::new().await;
    stage.play(said("ana", "hello", 9), |_| text("Hi")).await;
    stage.play(said("ana", "bye", 5), |_| text("Bye")).await;
    stage.play(said("ana", "nothing", 1), |_| crate::stage::actions("IGNORE", "")).await;
    let [one] = &stage.records.relationships().of(&audience()).await.expect("read")[..] else {
        panic!("one relationship")
    };
    assert_eq!((one.source.as_str(), one.target.as_str(), one.interactions), ("ana", "eliza", 2));
    assert_eq!(one.last_interaction_at, Some(at(NOW - 5)));
}

/// An embedder for which all texts mean the same.
#[derive(Debug)]
struct Same;

#[async_trait]
impl Embedder for Same {
    fn model(&self) -> &str {
        "m"
    }

    fn width(&self) -> usize {
        1
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        Ok(vec![vec![1.0]; texts.len()])
    }
}

#[tokio::test]
async fn the_agent_makes_the_vectors_of_its_facts() {
    let mut stage = Stage::with_embedder(Arc::new(Same)).await;
    let fact = NewFact::new(audience().room, entity("ana"), entity("eliza"), "Ana likes tea", at(NOW - 9));
    stage.records.facts().remember(fact).await.expect("kept");
    let query = FactQuery::new("beverage");
    assert_eq!(stage.records.facts().recall(&audience(), &query).await.expect("read").unembedded, 1);
    stage.play(said("ana", "hello", 1), |_| text("Hi")).await;
    let recalled = stage.records.facts().recall(&audience(), &query).await.expect("read");
    assert_eq!((recalled.unembedded, recalled.facts.len()), (0, 1));
    assert_eq!(stage.records.upkeep().await.expect("nothing to do"), 0);
}

/// The answers to three messages, after which a reflection is due.
async fn reflected(stage: &mut Stage, reflection: &str) {
    for ago in [9, 8, 7] {
        let played = stage.play(said("ana", "I like tea", ago), |call| match call.task {
            Task::Reflect => reflection.to_owned(),
            _ => text("Good"),
        });
        assert_eq!(played.await.0, End::Completed);
    }
}

#[tokio::test]
async fn what_the_agent_thinks_of_how_it_did_is_kept_and_shown() {
    let mut stage = Stage::reflecting(16).await;
    reflected(&mut stage, r#"{"thought":"I was too short with Ana"}"#).await;
    let [thought] = &stage.records.reflections().newest(&audience(), 9).await.expect("read")[..] else { panic!("one") };
    assert_eq!((thought.text.as_str(), thought.created_at), ("I was too short with Ana", at(NOW)));
    let message = stage.records.messages().get(&audience(), thought.source).await.expect("read").expect("the message");
    assert_eq!(message.content.author, entity("ana"));
    let composer = Composer::builder(stage.services()).built_in().build().expect("names differ");
    let state = composer.compose_state(&Turn::new(message), &ComposeOptions::only(["REFLECTIONS"])).await;
    assert!(state.text.ends_with("] I was too short with Ana"), "{}", state.text);
}

#[tokio::test]
async fn a_reflection_keeps_the_kind_of_a_fact_and_corrects_what_is_known() {
    let mut stage = Stage::reflecting(16).await;
    let fact = NewFact::new(audience().room, entity("ana"), entity("eliza"), "Ana likes coffee", at(NOW - 99));
    stage.records.facts().remember(fact).await.expect("kept");
    let reflection = r#"{"thought":"t","facts":[{"claim":"Ana likes tea","subject":"ana","type":"Opinion",
        "corrects":"Ana likes coffee"},{"claim":"Ana is here","subject":"ana","type":"status","corrects":"unknown"}]}"#;
    reflected(&mut stage, reflection).await;
    let facts = stage.records.facts().newest(&audience(), 9).await.expect("read");
    let facts: BTreeMap<_, _> = facts.iter().map(|fact| (fact.text.as_str(), fact.kind.as_str())).collect();
    assert_eq!(facts, BTreeMap::from([("Ana is here", "status"), ("Ana likes tea", "opinion")]));
    let opinions = FactQuery::new("What does Ana like?").of_kind("opinion");
    let found = stage.records.facts().recall(&audience(), &opinions).await.expect("read").facts;
    assert_eq!(found.iter().map(|found| found.fact.text.as_str()).collect::<Vec<_>>(), ["Ana likes tea"]);
}
