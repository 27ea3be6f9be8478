//! The requests in an answer: actions, and the providers that they need.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use memory_context::flow::{End, FlowStep};
use memory_context::records::ActionStatus;
use memory_context::state::{ContextProvider, Cx, ProviderInfo, ProviderResult};
use memory_context::tool::{Tool, ToolContext};
use memory_core::{Error, Result};

use crate::model::Question;
use crate::stage::{Setting, Stage, end};

/// A tool that does what its name says.
fn scripted(name: &'static str) -> Tool {
    let tool = Tool::new(name, move |(), context: ToolContext| async move {
        match name {
            "FAIL" => Err(Error::invalid("as a test")),
            "PANIC" => panic!("as a test"),
            "LOOK" => Ok(context.state().provider("WEATHER").map_or("nothing", |weather| &weather.text).to_owned()),
            _ => {
                let results = context.actions().results.iter();
                let failed = results.filter(|result| !result.success).map(|result| result.tool.as_str());
                Ok(failed.collect::<Vec<_>>().join("+"))
            }
        }
    });
    if name == "REFUSE" { tool.when(|_, _| async { Ok(false) }) } else { tool.with_description("For a test") }
}

/// Counts how often it is asked.
#[derive(Debug, Default)]
struct Weather(AtomicUsize);

static WEATHER: ProviderInfo = ProviderInfo::new("WEATHER", "The weather").dynamic();

#[async_trait]
impl ContextProvider for Weather {
    fn info(&self) -> &ProviderInfo {
        &WEATHER
    }

    async fn get(&self, _cx: &Cx<'_>) -> Result<ProviderResult> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(ProviderResult::text("It rains"))
    }
}

#[tokio::test]
async fn an_action_that_throws_does_not_lose_the_rest() {
    let tools = ["FAIL", "PANIC", "REFUSE", "TELL"].map(scripted).to_vec();
    let mut stage = Stage::set(Setting { tools, ..Setting::default() }).await;
    let run = stage.writes("Do it").await;
    stage.model.asked_to(Question::Answer).await.acts("REPLY, FAIL, PANIC, REFUSE, SING, TELL", "", "I try");
    let again = stage.model.asked_to(Question::Answer).await;
    assert!(again.prompt.contains("1. FAIL (failed): as a test\n2. PANIC (failed): "), "{}", again.prompt);
    again.acts("IGNORE", "", "");
    assert_eq!((end(run).await, stage.hears().await.1), (End::Completed, "I try".into()));

    let stored = stage.stored().await;
    assert_eq!((stored[0].content.text.as_str(), stored[1].content.text.as_str()), ("Do it", "I try"));
    let results: Vec<_> =
        stored[2..].iter().map(|message| message.content.action_result.clone().expect("a result")).collect();
    let told: Vec<_> = results.iter().map(|result| (result.action.as_str(), result.status, result.step)).collect();
    use ActionStatus::{Completed, Failed};
    let expected =
        [("FAIL", Failed, 1), ("PANIC", Failed, 2), ("REFUSE", Failed, 3), ("SING", Failed, 4), ("TELL", Completed, 5)];
    assert_eq!(told, expected);
    assert!(results.iter().all(|result| result.steps == 5 && result.thought.as_deref() == Some("because")));
    assert_eq!(stored.last().expect("stored").content.text, "FAIL+PANIC+REFUSE+SING", "it knows what failed before it");

    let runs = stage.ends().await;
    let [run] = &runs[..] else { panic!("{runs:?}") };
    assert!(results.iter().all(|result| result.run == run.id.to_string()));
    let ended = run.steps.iter().filter_map(|step| match step {
        FlowStep::ActionEnded { action, success } => Some((action.as_str(), *success)),
        _ => None,
    });
    // A name without an action is text of the model, and no event shows it.
    let expected = [("FAIL", false), ("PANIC", false), ("", false), ("", false), ("TELL", true)];
    assert_eq!(ended.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn the_model_names_the_providers_that_its_actions_need() {
    let weather = Arc::new(Weather::default());
    let providers = vec![Arc::clone(&weather) as Arc<dyn ContextProvider>];
    let mut stage = Stage::set(Setting { tools: vec![scripted("LOOK")], providers, ..Setting::default() }).await;
    let run = stage.writes("Does it rain?").await;
    let asked = stage.model.asked_to(Question::Answer).await;
    assert!(asked.prompt.contains("**WEATHER**: The weather") && !asked.prompt.contains("It rains"), "it is offered");
    assert_eq!(weather.0.load(Ordering::Relaxed), 0);
    // A list as models write it: with an unknown name, and an empty one.
    asked.acts("REPLY, LOOK", "WEATHER, NOWHERE,,", "Let me see");
    // It answers with the requested providers.
    let again = stage.model.asked_to(Question::Answer).await;
    assert!(again.prompt.contains("It rains"), "{}", again.prompt);
    again.says("Yes");
    assert_eq!((end(run).await, stage.hears().await.1), (End::Completed, "Yes".into()));
    assert_eq!(stage.texts().await, ["Does it rain?", "It rains", "Yes"]);

    assert_eq!(stage.ends().await.len(), 1);
}
