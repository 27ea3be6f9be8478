//! The agent's own abilities, and parts that are added and removed while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::StreamExt;
use memory_context::agent::{Agent, AgentBuilder, ContextPart, ContextParts, ContextPlugin, Tool};
use memory_context::core::InMemory;
use memory_context::flow::{EventKind, FlowStep, Notice};
use memory_context::model::{ChatMessage, Prompt};
use memory_context::state::{
    ContextProvider, Cx, Evaluation, Evaluator, EvaluatorInfo, ProviderInfo, ProviderResult, Services, Values,
};
use memory_context::{ErrorKind, Result};
use serde_json::json;

use crate::model::Model;
use crate::stage::{Stage, answer, place, results, said, weather};

#[tokio::test]
async fn an_agent_keeps_what_it_is_to_remember_by_a_tool() {
    let mut stage = Stage::whole(|builder| builder.tool(Tool::new("weather", weather))).await;
    let question = stage.asks("ana", "Remember that I like tea");
    let asked = stage.model.asked().await;
    assert_eq!(asked.offered(), ["weather", "NONE", "FOLLOW_ROOM", "MUTE_ROOM", "REMEMBER", "LOOK_UP", "FORGET"]);
    asked.calls(&[("REMEMBER", json!({ "store": "user", "text": "Ana likes tea" }))]);
    stage.model.asked().await.writes("I do");
    assert_eq!(results(&answer(question).await), [("REMEMBER", true, "It is kept.")]);
    let question = stage.asks("ana", "What do I like?");
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("## About You\n\nAna likes tea"), "{}", asked.prompt);
    asked.writes("Tea");
    assert_eq!(answer(question).await.text, "Tea");
    stage.ends().await;
}

/// Brings the weather along.
#[derive(Debug, Default)]
struct Station {
    is_over: Arc<AtomicBool>,
}

#[async_trait]
impl ContextPlugin for Station {
    fn name(&self) -> &str {
        "station"
    }

    async fn init(&self, config: &Values, _: &Services) -> Result<ContextParts> {
        let name = config["tool"].as_str().unwrap_or_default();
        Ok(ContextParts::default().with_tool(Tool::new(name, weather)))
    }

    async fn shutdown(&self) -> Result<()> {
        self.is_over.store(true, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test]
async fn tools_come_and_go_while_the_agent_runs() {
    let config = |tool: &str| Values::from_iter([("tool".to_owned(), tool.into())]);
    let station = Station::default();
    let is_over = Arc::clone(&station.is_over);
    let mut stage = Stage::with(|builder| builder.context_plugin(station, config("forecast"))).await;
    let taken = stage.agent.install(Station::default(), &config("other")).await;
    assert_eq!(taken.expect_err("the plugin is there").kind(), ErrorKind::InvalidInput);
    let unfit = stage.agent.add(ContextParts::default().with_tool(Tool::new("no name", weather)));
    assert_eq!(unfit.expect_err("no name for a model").kind(), ErrorKind::InvalidInput);
    let weather = || ContextParts::default().with_tool(Tool::new("weather", weather));
    stage.agent.add(weather()).expect("a new name");
    assert_eq!(stage.agent.add(weather()).expect_err("taken").kind(), ErrorKind::InvalidInput);
    stage.agent.replace(weather()).expect("a name");
    for (is_installed, offered) in [(true, &["forecast", "weather"][..]), (false, &["weather"]), (false, &[])] {
        let question = stage.asks("ana", "Hello");
        let asked = stage.model.asked().await;
        assert_eq!((asked.offered(), is_over.load(Ordering::SeqCst)), (offered.to_vec(), !is_installed));
        asked.writes("Hi");
        answer(question).await;
        if is_installed {
            assert!(stage.agent.uninstall("station").await.expect("ended"));
        } else {
            stage.agent.remove(&ContextPart::Tool("weather".into()));
        }
    }
    stage.ends().await;
}

#[tokio::test]
async fn each_round_offers_the_tools_of_its_time() {
    let config = Values::from_iter([("tool".to_owned(), "forecast".into())]);
    let mut stage = Stage::with(|builder| builder.context_plugin(Station::default(), config)).await;
    let tool = |name: &str| ContextParts::default().with_tool(Tool::new(name, weather));
    stage.agent.add(tool("weather")).expect("a new name");
    let question = stage.asks("ana", "Does it rain?");
    let asked = stage.model.asked().await;
    assert_eq!(asked.offered(), ["forecast", "weather"]);
    assert!(stage.agent.uninstall("station").await.expect("ended"));
    stage.agent.add(tool("climate")).expect("a new name");
    asked.calls(&[("forecast", place("Lima")), ("weather", place("Lima"))]);
    let asked = stage.model.asked().await;
    assert_eq!(asked.offered(), ["weather", "climate"]);
    asked.calls(&[("climate", place("Cusco"))]);
    stage.model.asked().await.writes("It does");
    let expected = [
        ("forecast", false, "there is no tool of this name now; there are weather"),
        ("weather", true, "It rains in Lima."),
        ("climate", true, "It rains in Cusco."),
    ];
    assert_eq!(results(&answer(question).await), expected);
    stage.ends().await;
}

#[tokio::test]
async fn a_host_gives_other_names_to_what_it_did_not_make() {
    let config = Values::from_iter([("tool".to_owned(), "forecast".into())]);
    let with_names = |builder: AgentBuilder| {
        let builder = builder.context_plugin(Station::default(), config.clone()).alias("Rain radar", "forecast");
        builder.alias("SAY_SOMETHING", "REPLY").alias("stay", "FOLLOW_ROOM")
    };
    let rains = |place: &str| format!("It rains in {place}.");
    let mut stage = Stage::whole(with_names).await;
    let question = stage.asks("ana", "Does it rain?");
    stage.model.asked().await.calls(&[("rain_radar", place("Lima")), ("forecast", place("Cusco"))]);
    let asked = stage.model.asked().await;
    assert_eq!(asked.body["messages"][2]["tool_calls"][0]["function"]["name"], "forecast");
    asked.writes("It does.");
    let answered = answer(question).await;
    assert_eq!(results(&answered), ["Lima", "Cusco"].map(rains).each_ref().map(|told| ("forecast", true, &**told)));
    stage.ends().await;

    let mut stage = Stage::whole(|builder| with_names(builder).without_tool_calls()).await;
    let question = stage.asks("ana", "Does it rain?");
    stage.model.asked().await.writes(
        "<response><thought>I look</thought><actions>say-something, RAIN_RADAR, Forecast, STAY</actions>\
         <parameters>{\"RainRadar\": {\"place\": \"Puno\"}, \"FORECAST\": {\"place\": \"Tacna\"}}</parameters><text>I look</text></response>",
    );
    stage.model.asked().await.acts("Say_Something", "", "It does.");
    let answered = answer(question).await;
    assert_eq!(said(&answered), ["I look", "It does."]);
    assert_eq!(answered.said[1].content.actions, ["REPLY"]);
    let [puno, tacna, (followed, is_followed, _)] = results(&answered)[..] else { panic!("three calls") };
    for (result, place) in [(puno, "Puno"), (tacna, "Tacna")] {
        assert_eq!(result, ("forecast", true, &*rains(place)));
    }
    assert_eq!((followed, is_followed), ("FOLLOW_ROOM", true));

    // A text is required under any name of REPLY.
    let question = stage.asks("ana", "And?");
    stage.model.asked().await.acts("SAY_SOMETHING", "", "");
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("That answer is not valid: missing: text"), "{}", asked.prompt);
    asked.says("Nothing");
    answer(question).await;

    for (name, tool) in [
        ("radar", "no_such_tool"),
        ("fore-cast", "NONE"),
        ("follow chat", "NONE"),
        ("reply", "NONE"),
        ("RAIN RADAR", "NONE"),
        (" _", "NONE"),
        (&"a".repeat(65), "NONE"),
    ] {
        let refused = stage.agent.add(ContextParts::default().with_alias(name, tool)).expect_err(name);
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{name}: {refused}");
    }
    let clash = ContextParts::default().with_tool(Tool::new("RainRadar", weather));
    assert_eq!(stage.agent.add(clash).expect_err("an alias has it").kind(), ErrorKind::InvalidInput);
    stage.agent.replace(ContextParts::default().with_alias("stay", "MUTE_ROOM")).expect("another tool");
    assert!(stage.agent.remove(&ContextPart::Alias("stay".into())));
    assert!(stage.agent.uninstall("station").await.expect("ended"));
    assert!(!stage.agent.remove(&ContextPart::Alias("Rain radar".into())), "it is gone with its tool");
    let question = stage.asks("ana", "Does it rain?");
    stage.model.asked().await.calls(&[("rain_radar", place("Lima")), ("stay", json!({}))]);
    stage.model.asked().await.writes("I can't tell");
    assert!(answer(question).await.results.iter().all(|result| !result.success));
    stage.ends().await;
}

#[tokio::test]
async fn an_agent_with_an_alias_of_no_tool_is_not_built() {
    let station = Station::default();
    let (is_over, config) = (Arc::clone(&station.is_over), Values::from_iter([("tool".to_owned(), "forecast".into())]));
    let builder = Agent::builder("ada").memory(Arc::new(InMemory::new())).model("http://localhost:1/v1", "small");
    let refused = builder.context_plugin(station, config).alias("radar", "no_such_tool").build().await;
    let refused = refused.expect_err("no such tool");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(refused.message(), "alias 1 names no existing tool", "without what a file may have there");
    assert!(is_over.load(Ordering::SeqCst), "the plugin is shut down");
}

/// Counts how often it is asked.
struct Counter(ProviderInfo, std::sync::atomic::AtomicUsize);

#[async_trait]
impl ContextProvider for Counter {
    fn info(&self) -> &ProviderInfo {
        &self.0
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        assert!(cx.services().model().is_some(), "a provider may ask the model");
        let count = self.1.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(ProviderResult::text(format!("counted {count}")).with_value("count", count))
    }
}

#[tokio::test]
async fn what_is_cached_is_read_and_cleared() {
    let counter = Counter(ProviderInfo::new("COUNTER", ""), Default::default());
    let builder = |builder: AgentBuilder| builder.provider(counter).tool(Tool::new("weather", weather));
    let mut stage = Stage::with(|agent| builder(agent).without_tool_calls()).await;
    let question = stage.asks("ana", "Does it rain?");
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("counted 1"), "{}", asked.prompt);
    let cache = stage.agent.cache();
    let [message] = cache.messages()[..] else { panic!("one message") };
    let count = || Some(cache.get(message)?.providers.get("COUNTER")?.values.get("count")?.clone());
    assert_eq!(count(), Some(json!(1)));
    // An answer in a form has its results in a state of its own, over the cached one.
    let looks = "<response><thought>I look</thought><actions>weather</actions>\
        <parameters>{\"weather\": {\"place\": \"Lima\"}}</parameters></response>";
    asked.writes(looks);
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("counted 1"), "{}", asked.prompt);
    stage.agent.cache().clear();
    assert_eq!((cache.messages().len(), count()), (0, None));
    asked.writes(looks);
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("counted 2"), "{}", asked.prompt);
    asked.says("It does");
    answer(question).await;
    stage.ends().await;
}

/// Asks the small model for the topic of an answer, and records that the answer was said.
struct Topic(EvaluatorInfo);

#[async_trait]
impl Evaluator for Topic {
    fn info(&self) -> &EvaluatorInfo {
        &self.0
    }

    async fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<()> {
        let services = evaluation.cx.services();
        let (model, events) = (services.small_model().expect("a model"), services.events().expect("events"));
        let question = ChatMessage::user("What was that about?");
        let topic = model.complete(&Prompt { messages: vec![question], ..Prompt::default() }).await?.text;
        let mut heard = Box::pin(events.subscribe());
        let message = evaluation.say(&topic).await?;
        let Some(Notice::Event(event)) = heard.next().await else { panic!("an event") };
        assert_eq!(event.kind, EventKind::Step(FlowStep::Answered(message.id)));
        Ok(())
    }
}

#[tokio::test]
async fn an_evaluator_asks_the_models_of_its_agent() {
    let mut small = Model::start().await;
    let mut info = EvaluatorInfo::new("TOPIC", "");
    info.is_awaited = true;
    let mut stage = Stage::with(|builder| builder.small_model(&small.url, "tiny").evaluator(Topic(info))).await;
    let question = stage.asks("ana", "Does it rain?");
    stage.model.asked().await.writes("It does");
    let asked = small.asked().await;
    assert_eq!((asked.prompt.as_str(), asked.model.as_str()), ("What was that about?", "tiny"));
    asked.writes("Rain");
    let answer = answer(question).await;
    assert_eq!(said(&answer), ["It does", "Rain"]);
    assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (20, 4), "its call counts");
    stage.ends().await;
}
