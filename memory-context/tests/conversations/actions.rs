//! What an answer asks for: actions, and what they need to know.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use memory_context::flow::{End, Step};
use memory_context::records::ActionStatus;
use memory_context::state::{
    Action, ActionCall, ActionInfo, ActionResult, ContextProvider, Cx, ProviderInfo, ProviderResult,
};
use memory_core::{Error, Result};

use crate::model::Question;
use crate::stage::{Setting, Stage, end};

/// Does what its name says.
#[derive(Debug)]
struct Scripted(ActionInfo);

impl Scripted {
    fn named(name: &'static str) -> Arc<dyn Action> {
        Arc::new(Self(ActionInfo::new(name, "For a test")))
    }
}

#[async_trait]
impl Action for Scripted {
    fn info(&self) -> &ActionInfo {
        &self.0
    }

    async fn validate(&self, _cx: &Cx<'_>) -> Result<bool> {
        Ok(self.0.name != "REFUSE")
    }

    async fn run(&self, call: &ActionCall<'_>) -> Result<ActionResult> {
        let seen = match self.0.name.as_ref() {
            "FAIL" => return Err(Error::invalid("as a test")),
            "PANIC" => panic!("as a test"),
            "LOOK" => call.state.provider("WEATHER").map_or("nothing", |weather| weather.text.as_str()).to_owned(),
            _ => {
                let results = call.cx.actions().results.iter();
                let failed = results.filter(|result| !result.success).map(|result| result.action.as_str());
                failed.collect::<Vec<_>>().join("+")
            }
        };
        Ok(ActionResult::done(self.0.name.clone(), seen))
    }
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
    let actions = ["FAIL", "PANIC", "REFUSE", "TELL"].map(Scripted::named).to_vec();
    let mut stage = Stage::set(Setting { actions, ..Setting::default() }).await;
    let run = stage.writes("Do it").await;
    stage.model.asked_to(Question::Answer).await.acts("REPLY, FAIL, PANIC, REFUSE, SING, TELL", "", "I try");
    assert_eq!((end(run).await, stage.hears().await.1), (End::Completed, "I try".into()));

    let stored = stage.stored().await;
    assert_eq!((stored[0].content.text.as_str(), stored[1].content.text.as_str()), ("Do it", "I try"));
    let results: Vec<_> =
        stored[2..].iter().map(|message| message.content.action_result.clone().expect("a result")).collect();
    let told: Vec<_> = results.iter().map(|result| (result.action.as_str(), result.status, result.step)).collect();
    use ActionStatus::{Completed, Failed};
    let expected = [
        ("REPLY", Completed, 1),
        ("FAIL", Failed, 2),
        ("PANIC", Failed, 3),
        ("REFUSE", Failed, 4),
        ("SING", Failed, 5),
        ("TELL", Completed, 6),
    ];
    assert_eq!(told, expected);
    assert!(results.iter().all(|result| result.steps == 6 && result.thought.as_deref() == Some("because")));
    assert_eq!(stored.last().expect("stored").content.text, "FAIL+PANIC+REFUSE+SING", "it knows what failed before it");

    let runs = stage.ends().await;
    let [run] = &runs[..] else { panic!("{runs:?}") };
    assert!(results.iter().all(|result| result.run == run.id.to_string()));
    let ended = run.steps.iter().filter_map(|step| match step {
        Step::ActionEnded { action, success } => Some((action.as_str(), *success)),
        _ => None,
    });
    // A name that no action has is what the model wrote, and no event shows it.
    let expected = [("REPLY", true), ("FAIL", false), ("PANIC", false), ("REFUSE", false), ("", false), ("TELL", true)];
    assert_eq!(ended.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn the_model_names_the_providers_that_its_actions_need() {
    let weather = Arc::new(Weather::default());
    let providers = vec![Arc::clone(&weather) as Arc<dyn ContextProvider>];
    let mut stage =
        Stage::set(Setting { actions: vec![Scripted::named("LOOK")], providers, ..Setting::default() }).await;
    let run = stage.writes("Does it rain?").await;
    let asked = stage.model.asked_to(Question::Answer).await;
    assert!(asked.prompt.contains("**WEATHER**: The weather") && !asked.prompt.contains("It rains"), "it is offered");
    assert_eq!(weather.0.load(Ordering::Relaxed), 0);
    // A list as models write it: with a name that nobody has, and one that is empty.
    asked.acts("REPLY, LOOK", "WEATHER, NOWHERE,,", "Let me see");
    // It answers with what it asked for, and so does its action.
    let again = stage.model.asked_to(Question::Answer).await;
    assert!(again.prompt.contains("It rains"), "{}", again.prompt);
    again.says("Yes");
    assert_eq!((end(run).await, stage.hears().await.1), (End::Completed, "Yes".into()));
    assert_eq!(stage.texts().await, ["Does it rain?", "Yes", "", "It rains"]);
    assert_eq!(stage.stored().await[1].content.providers, ["WEATHER"]);
    assert_eq!(stage.ends().await.len(), 1);
}
