//! Parts that are replaced and removed while the agent runs.

use std::sync::Arc;

use async_trait::async_trait;
use memory_context::Result;
use memory_context::agent::{ContextPart, ContextParts, Tool};
use memory_context::records::{ChannelType, Room};
use memory_context::state::{Evaluation, Evaluator, EvaluatorInfo};
use memory_context::template::{Template, Templates};
use serde_json::json;

use crate::model::within;
use crate::stage::{Stage, answer, place, results, said, weather};

/// Says a text after each answer.
struct Footnote(EvaluatorInfo, &'static str);

#[async_trait]
impl Evaluator for Footnote {
    fn info(&self) -> &EvaluatorInfo {
        &self.0
    }

    async fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<()> {
        evaluation.say(self.1).await.map(drop)
    }
}

fn footnote(text: &'static str) -> ContextParts {
    let mut info = EvaluatorInfo::new("FOOTNOTE", "");
    info.is_awaited = true;
    ContextParts::default().with_evaluator(Arc::new(Footnote(info, text)))
}

#[tokio::test]
async fn evaluators_come_and_go_while_the_agent_runs() {
    let mut stage = Stage::with(|builder| builder.without_reflection()).await;
    let mut says = async |expected: &[&str]| {
        let question = stage.asks("ana", "Hello");
        stage.model.asked().await.writes("Hi");
        assert_eq!(said(&answer(question).await), expected);
        stage.agent.clone()
    };
    let agent = says(&["Hi"]).await;
    agent.add(footnote("One")).expect("a new name");
    agent.add(footnote("Two")).expect_err("the name is taken");
    says(&["Hi", "One"]).await;
    agent.replace(footnote("Two")).expect("the name is there");
    says(&["Hi", "Two"]).await;
    assert!(agent.remove(&ContextPart::Evaluator("FOOTNOTE".into())));
    says(&["Hi"]).await;
    stage.ends().await;
}

#[tokio::test]
async fn a_built_in_tool_is_replaced_and_taken_away() {
    let mut stage = Stage::whole(|builder| builder).await;
    let forecast = Tool::new("NONE", weather).with_description("Tells the weather, surely");
    stage.agent.replace(ContextParts::default().with_tool(forecast)).expect("the name is there");
    let question = stage.asks("ana", "Does it rain?");
    let asked = stage.model.asked().await;
    assert_eq!(asked.offered(), ["NONE", "FOLLOW_ROOM", "MUTE_ROOM", "REMEMBER", "LOOK_UP", "FORGET"]);
    assert_eq!(asked.body["tools"][0]["function"]["description"], "Tells the weather, surely");
    asked.calls(&[("NONE", place("Lima"))]);
    stage.model.asked().await.writes("It does");
    assert_eq!(results(&answer(question).await), [("NONE", true, "It rains in Lima.")]);

    for name in ["NONE", "REMEMBER", "FORGET"] {
        assert!(stage.agent.remove(&ContextPart::Tool(name.into())), "{name}");
        assert!(!stage.agent.remove(&ContextPart::Tool(name.into())), "{name} is gone");
    }
    let question = stage.asks("ana", "Does it rain?");
    let asked = stage.model.asked().await;
    assert_eq!(asked.offered(), ["FOLLOW_ROOM", "MUTE_ROOM", "LOOK_UP"]);
    asked.calls(&[("REMEMBER", json!({ "store": "user", "text": "Ana asks of rain" }))]);
    stage.model.asked().await.writes("I can't tell");
    assert!(!answer(question).await.results[0].success);
    stage.ends().await;
}

#[tokio::test]
async fn templates_are_replaced_while_the_agent_runs() {
    let mut stage = Stage::with(|builder| builder.without_reflection()).await;
    let template = |text: &str| Template::parse(text).expect("a template");
    let mut templates = Templates::default();
    templates.message_handler = template("Speak as {{agentName}}.");
    templates.post_creation = template("Post as {{agentName}}.");
    stage.agent.set_templates(templates);
    let question = stage.asks("ana", "Hello");
    let asked = stage.model.asked().await;
    assert_eq!(asked.messages()[1], ("user", "Speak as ada."));
    asked.writes("Hi");
    answer(question).await;

    let service = Arc::clone(stage.agent.service());
    let room = Room::new("harbour".parse().expect("valid"), ChannelType::Feed);
    let posted = tokio::spawn(async move { service.post(&room).await });
    let asked = stage.model.asked().await;
    assert_eq!(asked.messages()[1], ("user", "Post as ada."));
    asked.writes("<response><thought>because</thought><post>The tide is in.</post></response>");
    let posted = within(posted).await.expect("no panic").expect("a post");
    assert_eq!(posted.message.content.text, "The tide is in.");
    stage.ends().await;
}
