//! Tools, by the endpoint's own calls and by the actions of an answer.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use memory_context::agent::{End, Limits, Tool, ToolContext, ToolOutput};
use memory_context::core::plugin::Scope;
use memory_context::core::{Clock, InMemory, MemoryProvider, Outcome, SystemClock};
use memory_context::flow::{MAX_CALLS, MAX_ROUNDS, Platform};
use memory_context::model::{ChatMessage, Prompt};
use memory_context::records::{Audience, ChannelType, FactQuery, Message, NewFact, Room, RoomId};
use memory_context::state::{ContextProvider, Cx, MAX_RESULT, ProviderInfo, ProviderResult};
use memory_context::template::{Template, Templates};
use memory_context::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::stage::{Stage, answer, failure, place, results, said, weather};

#[tokio::test]
async fn the_conversation_of_the_example() {
    let mut stage = Stage::new().await;
    let question = stage.asks("ana", "Does it rain in Lima?");
    let asked = stage.model.asked().await;
    let tool = &asked.body["tools"][0]["function"];
    assert_eq!((&tool["name"], &tool["description"]), (&json!("weather"), &json!("Tells the weather of a place.")));
    assert_eq!(tool["parameters"]["properties"]["place"]["description"], "The name of a town.");
    asked.calls(&[("weather", place("Lima"))]);
    let asked = stage.model.asked().await;
    let [.., call, result] = &asked.body["messages"].as_array().expect("messages")[..] else { panic!("two more") };
    assert_eq!(call["tool_calls"][0]["function"]["name"], "weather");
    assert_eq!((&result["role"], &result["content"]), (&json!("tool"), &json!("It rains in Lima.")));
    assert_eq!(result["tool_call_id"], call["tool_calls"][0]["id"]);
    asked.writes("Yes, in Lima it does.");
    let answer = answer(question).await;
    assert_eq!((answer.text.as_str(), &answer.end), ("Yes, in Lima it does.", &End::Completed));
    assert_eq!(results(&answer), [("weather", true, "It rains in Lima.")]);
    assert_eq!(answer.results[0].arguments, place("Lima"));
    assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (20, 4));
    stage.ends().await;
}

/// A platform that says everything, and whose first two answers are lost.
#[derive(Debug, Clone, Default)]
struct Losing(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Platform for Losing {
    async fn say(&self, message: &Message) -> Result<()> {
        let mut said = self.0.lock().expect("no panic");
        said.push(message.content.text.clone());
        match said.len() {
            0..=2 => Err(Error::new(ErrorKind::Unavailable, "the answer is lost").with_outcome(Outcome::Unknown)),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_text_beside_calls_that_may_have_been_said_is_not_said_again() {
    let losing = Losing::default();
    let mut stage =
        Stage::with(|builder| builder.tool(Tool::new("weather", weather)).platform("house", losing.clone())).await;
    let mut kitchen = Room::new(RoomId::parse("kitchen").expect("valid"), ChannelType::Group);
    kitchen.source = "house".to_owned();
    let kitchen = stage.agent.room(kitchen);
    let question = tokio::spawn(async move { kitchen.ask("ana", "Does it rain in Lima?").await });
    stage.model.asked().await.says_and_calls(Some("I look"), &[("weather", place("Lima"))]);
    let asked = stage.model.asked().await;
    let [.., (role, text), (_, result)] = asked.messages()[..] else { panic!("two more") };
    assert_eq!((role, result), ("assistant", "It rains in Lima."));
    assert!(text.contains("may have been told") && text.ends_with("I look"), "{text}");
    asked.writes("It does.");
    assert_eq!(answer(question).await.end, End::Completed);
    assert_eq!(*losing.0.lock().expect("no panic"), ["I look", "I look", "It does."]);
    stage.ends().await;
}

#[tokio::test]
async fn the_same_by_the_actions_of_an_answer() {
    let mut stage = Stage::with(|builder| builder.tool(Tool::new("weather", weather)).without_tool_calls()).await;
    let question = stage.asks("ana", "Does it rain in Lima?");
    let asked = stage.model.asked().await;
    assert!(
        asked.prompt.contains("- **weather**: Tells the weather of a place.\n  - place (string): The name of a town.")
    );
    asked.writes(
        "<response><thought>I look</thought><actions>WEATHER, REPLY</actions>\
         <parameters>{\"weather\": {\"place\": \"Lima\"}}</parameters><text>I don't know yet</text></response>",
    );
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("1. weather (completed): It rains in Lima."), "{}", asked.prompt);
    asked.says("It does.");
    let answer = answer(question).await;
    assert_eq!((said(&answer), results(&answer)), (vec!["It does."], vec![("weather", true, "It rains in Lima.")]));
    stage.ends().await;
}

#[tokio::test]
async fn several_are_called_in_one_round_in_their_order() {
    let count =
        Tool::new("count", |(), context: ToolContext| async move { Ok(context.actions().results.len().to_string()) });
    let mut stage = Stage::with(|builder| builder.tool(count)).await;
    let question = stage.asks("ana", "Count");
    let none = json!({});
    stage.model.asked().await.calls(&[("count", none.clone()), ("sing", none.clone()), ("Count", none)]);
    let asked = stage.model.asked().await;
    let told: Vec<_> = asked.messages().into_iter().filter(|(role, _)| *role == "tool").map(|(_, text)| text).collect();
    let [first, unknown, last] = told[..] else { panic!("{told:?}") };
    assert_eq!((first, last), ("0", "2"));
    assert!(unknown.starts_with("failed: there is no tool of this name now; there are count"), "{unknown}");
    asked.writes("Two");
    assert_eq!(answer(question).await.text, "Two");
    stage.ends().await;
}

#[tokio::test]
async fn a_call_knows_when_it_is_given_up() {
    let limits = Limits { action: Duration::from_secs(3_600), ..Limits::default() };
    let tell = Tool::new("tell", |(), context: ToolContext| async move {
        let before = Instant::now();
        let left = context.deadline().duration_since(before);
        assert!(!context.is_cancelled());
        Ok(left.as_secs_f64().to_string())
    });
    let mut stage = Stage::with(|builder| builder.limits(limits).tool(tell)).await;
    let question = stage.asks("ana", "How long?");
    stage.model.asked().await.calls(&[("tell", json!({}))]);
    stage.model.asked().await.writes("Well");
    let answered = answer(question).await;
    let [("tell", true, left)] = results(&answered)[..] else { panic!("one call") };
    let left: f64 = left.parse().expect("seconds");
    assert!(left > 3_000.0 && left <= 3_600.0, "{left}");
    stage.ends().await;
}

#[tokio::test]
async fn wrong_arguments_go_back_and_right_ones_do() {
    let mut stage = Stage::new().await;
    let question = stage.asks("ana", "Does it rain?");
    stage
        .model
        .asked()
        .await
        .calls(&[("weather", json!({ "place": 7_654_321 })), ("weather", json!("{\"place\": xyzzy"))]);
    let asked = stage.model.asked().await;
    let told: Vec<_> = asked.messages().into_iter().filter(|(role, _)| *role == "tool").map(|(_, text)| text).collect();
    assert!(told[0].contains("wrong arguments: /place: ") && !told[0].contains("7654321"), "{}", told[0]);
    assert!(told[1].contains("not valid JSON at line 1") && !told[1].contains("xyzzy"), "{}", told[1]);
    asked.calls(&[("weather", place("Lima"))]);
    stage.model.asked().await.writes("It does");
    let answer = answer(question).await;
    let successes: Vec<_> = answer.results.iter().map(|result| result.success).collect();
    assert_eq!((answer.text.as_str(), successes), ("It does", vec![false, false, true]));
    stage.ends().await;
}

#[tokio::test]
async fn the_rounds_are_bounded() {
    let mut stage = Stage::new().await;
    for last in ["I give up", ""] {
        let question = stage.asks("ana", "Does it rain?");
        for _ in 1..MAX_ROUNDS {
            let asked = stage.model.asked().await;
            assert_eq!(asked.offered(), ["weather"]);
            asked.calls(&[("weather", place("Lima"))]);
        }
        let asked = stage.model.asked().await;
        assert!(asked.offered().is_empty() && asked.prompt.contains("No more tools can be called now"));
        if last.is_empty() {
            asked.calls(&[("weather", place("Lima"))]);
            let error = failure(question).await;
            assert!(error.message().contains("called tools again and again"), "{error}");
        } else {
            asked.writes(last);
            let answer = answer(question).await;
            assert_eq!((answer.text.as_str(), answer.results.len()), (last, MAX_ROUNDS - 1));
        }
    }
    stage.ends().await;
}

#[tokio::test]
async fn the_calls_are_bounded() {
    let mut stage = Stage::new().await;
    let question = stage.asks("ana", "Does it rain?");
    stage.model.asked().await.calls(&vec![("weather", place("Lima")); MAX_CALLS + 1]);
    let asked = stage.model.asked().await;
    assert!(asked.offered().is_empty());
    let told = |count: usize| format!("{count} calls were not made: at most {MAX_CALLS} are made about one message.");
    assert!(asked.prompt.contains(&told(1)), "{}", asked.prompt);
    asked.writes("Always");
    assert_eq!(answer(question).await.results.len(), MAX_CALLS);
    stage.ends().await;
    // By the actions of an answer, which has at most sixteen. The text does not hide that the rest is left out.
    let quiet = Tool::new("quiet", |(), _| async { Ok(()) });
    let mut stage = Stage::with(|builder| builder.tool(quiet).without_tool_calls()).await;
    let question = stage.asks("ana", "Do it often");
    for count in [15, 15] {
        stage.model.asked().await.acts(&vec!["quiet"; count].join(","), "", "");
    }
    stage.model.asked().await.acts("REPLY, quiet, quiet, quiet, quiet", "", "I do");
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains(&told(2)), "{}", asked.prompt);
    asked.says("Not all of it");
    let answer = answer(question).await;
    assert_eq!((answer.results.len(), said(&answer)), (MAX_CALLS, vec!["I do", "Not all of it"]));
    stage.ends().await;
}

#[tokio::test]
async fn one_that_always_has_something_to_say_is_late_too() {
    let chatter = Tool::new("chatter", |(), context: ToolContext| async move {
        loop {
            context.say("And then").await?;
        }
        #[expect(unreachable_code, reason = "it tells the type")]
        Ok(String::new())
    });
    let limits = Limits { action: Duration::from_millis(50), ..Limits::default() };
    // Enough is said that a reflection would be due, which nobody here answers.
    let mut stage = Stage::with(|builder| builder.tool(chatter).limits(limits).without_reflection()).await;
    let question = stage.asks("ana", "Go on");
    stage.model.asked().await.calls(&[("chatter", json!({}))]);
    stage.model.asked().await.writes("Enough");
    let answer = answer(question).await;
    assert_eq!(results(&answer), [("chatter", false, "no result within 50 ms; it may have happened")]);
    assert_eq!(said(&answer).last(), Some(&"Enough"));
    stage.ends().await;
}

#[tokio::test]
async fn one_whose_check_panics_is_not_offered() {
    let tool = |name: &'static str| Tool::new(name, |(), _| async { Ok(String::new()) });
    let broken = tool("broken").when(|_, _| async { panic!("as a test") });
    let mut stage = Stage::with(|builder| builder.tool(broken).tool(tool("sound"))).await;
    let question = stage.asks("ana", "Hello");
    let asked = stage.model.asked().await;
    assert_eq!(asked.offered(), ["sound"]);
    asked.writes("Hi");
    assert_eq!(answer(question).await.text, "Hi");
    stage.ends().await;
}

#[tokio::test]
async fn one_that_fails_panics_or_is_late_does_not_lose_the_rest() {
    let tools = |name: &'static str| {
        Tool::new(name, move |(), _| async move {
            match name {
                "fails" => Err(Error::new(ErrorKind::Unavailable, "the station is down")),
                "late" => Err(Error::new(ErrorKind::Timeout, "no answer").with_outcome(Outcome::Unknown)),
                "panics" => panic!("as a test"),
                "hangs" => pending().await,
                _ => Ok("x".repeat(MAX_RESULT + 7)),
            }
        })
    };
    let names = ["fails", "late", "panics", "hangs", "talks"];
    let limits = Limits { action: Duration::from_millis(1), ..Limits::default() };
    let mut stage =
        Stage::with(|builder| names.map(tools).into_iter().fold(builder, |all, tool| all.tool(tool)).limits(limits))
            .await;
    let question = stage.asks("ana", "Do it");
    stage.model.asked().await.calls(&names.map(|name| (name, json!({}))));
    let asked = stage.model.asked().await;
    let told: Vec<_> = asked.messages().into_iter().filter(|(role, _)| *role == "tool").map(|(_, text)| text).collect();
    assert_eq!(
        told[..4],
        [
            "failed: the station is down",
            "failed: no answer; it may have happened",
            "failed: the tool panicked; it may have happened",
            "failed: no result within 1 ms; it may have happened"
        ]
    );
    assert!(told[4].ends_with("xx\n[7 bytes more]"), "a long result is cut");
    asked.writes("Well");
    let answer = answer(question).await;
    let successes: Vec<_> = answer.results.iter().map(|result| result.success).collect();
    assert_eq!((answer.text.as_str(), successes), ("Well", vec![false, false, false, false, true]));
    stage.ends().await;
}

#[tokio::test]
async fn what_a_tool_says_is_heard_once_and_in_order() {
    let tool = Tool::new("tell", |(), context: ToolContext| async move {
        context.say("First").await?;
        assert_eq!(context.say(" ").await.expect_err("blank").kind(), ErrorKind::InvalidInput);
        context.say("Second").await?;
        Ok(ToolOutput::said("Third"))
    });
    let mut stage = Stage::with(|builder| builder.tool(tool)).await;
    // Everything was heard, so the model is not asked again.
    let question = stage.asks("ana", "Tell me");
    stage.model.asked().await.calls(&[("tell", json!({}))]);
    let first = answer(question).await;
    assert_eq!(said(&first), ["First", "Second", "Third"]);
    assert_eq!((first.text.as_str(), &first.end), ("First\n\nSecond\n\nThird", &End::Completed));
    let question = stage.asks("ana", "Tell me again");
    let asked = stage.model.asked().await;
    assert_eq!(asked.prompt.matches("ada: Third").count(), 1, "{}", asked.prompt);
    asked.writes("No");
    assert_eq!(answer(question).await.text, "No");
    stage.ends().await;
}

#[tokio::test]
async fn a_long_text_that_is_said_is_cut_for_the_model_alone() {
    let long = format!("{}end", "x".repeat(MAX_RESULT));
    let text = long.clone();
    let tool = Tool::new("read", move |(), _| {
        let text = text.clone();
        async move { Ok(ToolOutput::said(text)) }
    });
    let look = Tool::new("look", |(), _| async { Ok("seen") });
    let mut stage = Stage::with(|builder| builder.tool(tool).tool(look)).await;
    let question = stage.asks("ana", "Read it to me");
    stage.model.asked().await.calls(&[("read", json!({})), ("look", json!({}))]);
    let asked = stage.model.asked().await;
    let (_, shown) = *asked.messages().iter().find(|(role, _)| *role == "tool").expect("a result");
    assert!(shown.starts_with("said to the user: x") && shown.ends_with("x\n[3 bytes more]"));
    asked.writes("That was it");
    let answer = answer(question).await;
    assert_eq!(said(&answer), [long.as_str(), "That was it"], "heard whole");
    assert_eq!(results(&answer)[0].2, long);
    stage.ends().await;
}

#[tokio::test]
async fn a_context_outlives_its_call_and_can_say_nothing_then() {
    let (sender, mut contexts) = tokio::sync::mpsc::unbounded_channel();
    let tool = Tool::new("keep", move |(), context: ToolContext| {
        let sender = sender.clone();
        async move {
            assert!(!context.is_cancelled());
            sender.send(context).expect("the test listens");
            Ok("kept")
        }
    });
    let mut stage = Stage::with(|builder| builder.tool(tool)).await;
    let question = stage.asks("ana", "Keep it");
    stage.model.asked().await.calls(&[("keep", json!({}))]);
    stage.model.asked().await.writes("Kept");
    assert_eq!(answer(question).await.text, "Kept");
    let context = contexts.recv().await.expect("it was kept");
    assert_eq!((context.message().content.text.as_str(), context.is_cancelled()), ("Keep it", true));
    context.cancelled().await;
    assert_eq!(context.say("Late").await.expect_err("over").kind(), ErrorKind::Closed);
    stage.ends().await;
}

#[tokio::test]
async fn the_memory_s_own_verbs_are_tools_within_the_room() {
    let mut stage = Stage::with(|builder| builder.memory_tools()).await;
    let question = stage.asks("ana", "Note that I like tea");
    let asked = stage.model.asked().await;
    assert_eq!(asked.offered(), ["memory_query", "memory_add_document", "memory_remove_document"]);
    asked.calls(&[("memory:add_document", json!({ "content": "Ana likes tea" }))]);
    stage.model.asked().await.writes("Noted");
    assert!(answer(question).await.results[0].success);
    for (user, knows) in [("ana", true), ("bo", false)] {
        let question = stage.asks(user, "What do I like?");
        stage.model.asked().await.calls(&[("memory_query", json!({ "text": "tea", "source": "documents" }))]);
        let asked = stage.model.asked().await;
        asked.writes("Let me think");
        let answer = answer(question).await;
        assert_eq!(results(&answer)[0].2.contains("Ana likes tea"), knows, "{user}: {:?}", results(&answer));
    }
    stage.ends().await;
}

#[tokio::test]
async fn an_executor_is_called_within_the_scope_of_the_host() {
    let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
    let query = Arc::clone(Arc::clone(&provider).plugin().executor("memory:query").expect("a verb"));
    let tool = Tool::from_executor(query, |_| Ok(Scope::new(Vec::new())));
    let mut stage = Stage::with(|builder| builder.memory(provider).tool(tool)).await;
    let question = stage.asks("ana", "What do you know?");
    stage.model.asked().await.calls(&[("memory_query", json!({}))]);
    stage.model.asked().await.writes("Nothing");
    let answer = answer(question).await;
    assert!(results(&answer)[0].2.contains("no documents may be used here"), "{:?}", results(&answer));
    stage.ends().await;
}

#[tokio::test]
async fn a_value_of_a_result_reaches_the_next_prompt() {
    let tool = Tool::with_schema("measure", "Measures", json!({ "type": "object" }), |_: Value, _| async {
        Ok(ToolOutput::new("21 degrees").with_value("temperature", 21))
    });
    let mut templates = Templates::default();
    let template = "{{providers}}\nsays and does next at {{temperature}} degrees";
    templates.message_handler = Template::parse(template).expect("a template");
    let mut stage = Stage::with(|builder| builder.tool(tool).templates(templates)).await;
    let question = stage.asks("ana", "How warm is it?");
    // The template does not ask for plain text, so its answer is read as the form; tools are offered all the same.
    let asked = stage.model.asked().await;
    assert_eq!(asked.offered(), ["measure"]);
    asked.writes("<response><thought>because</thought><actions>measure</actions></response>");
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("next at 21 degrees"), "{}", asked.prompt);
    asked.says("Warm");
    assert_eq!(answer(question).await.text, "Warm");
    stage.ends().await;
}

/// Contributes its own place, or the place that another provider contributes.
struct Told(ProviderInfo);

#[async_trait]
impl ContextProvider for Told {
    fn info(&self) -> &ProviderInfo {
        &self.0
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let place = cx.state().values.get("place").and_then(Value::as_str).unwrap_or("Nowhere").to_owned();
        let result = ProviderResult::text(format!("{} of {place}", self.0.name));
        Ok(if self.0.dynamic { result } else { result.with_value("place", "Lima") })
    }
}

#[tokio::test]
async fn a_model_that_calls_tools_looks_up_what_it_was_told_of_by_name() {
    let told = |info: ProviderInfo| Told(info.position(50));
    let mut stage = Stage::whole(|builder| {
        let place = Told(ProviderInfo::new("PLACE", "Where it is").position(-1));
        let tides = told(ProviderInfo::new("TIDES", "When the water is high").dynamic());
        let gates = told(ProviderInfo::new("GATES", "Which gates are open").dynamic().private());
        builder.provider(place).provider(tides).provider(gates).tool(Tool::new("weather", weather))
    })
    .await;
    let question = stage.asks("ana", "When is high water?");
    let asked = stage.model.asked().await;
    assert!(asked.offered().contains(&"LOOK_UP") && asked.prompt.contains("**TIDES**"), "{}", asked.prompt);
    assert!(!asked.prompt.contains("TIDES of") && !asked.prompt.contains("GATES"), "{}", asked.prompt);
    asked.calls(&[("LOOK_UP", json!({ "providers": ["GATES", "NOTHING"] })), ("weather", place("Lima"))]);
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("no provider has such a name; there are "), "{}", asked.prompt);
    asked.calls(&[("LOOK_UP", json!({ "providers": ["tides", "NOTHING"] }))]);
    // It sees their results above the rest, and those of its calls.
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("TIDES of Lima") && asked.prompt.contains("It rains in Lima."), "{}", asked.prompt);
    asked.calls(&[("weather", place("Cusco"))]);
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("TIDES of Lima") && asked.prompt.contains("It rains in Cusco."), "{}", asked.prompt);
    asked.writes("At noon");
    let answer = answer(question).await;
    let calls: Vec<_> = results(&answer).into_iter().map(|(tool, success, _)| (tool, success)).collect();
    assert_eq!(calls, [("LOOK_UP", false), ("weather", true), ("LOOK_UP", true), ("weather", true)]);
    assert_eq!(said(&answer), ["At noon"]);
    stage.ends().await;
}

#[tokio::test]
async fn a_tool_of_the_host_asks_the_model_and_keeps_a_fact() {
    let sum_up = Tool::new("sum_up", |(), context: ToolContext| async move {
        let question = ChatMessage::user("What was said so far, in a word?");
        let prompt = Prompt { messages: vec![question], ..Prompt::default() };
        let word = context.model().complete(&prompt).await?.text;
        let (records, audience) = (context.records(), context.audience());
        let fact =
            NewFact::new(audience.room.clone(), audience.entity, records.agent().entity(), &*word, SystemClock.now());
        records.facts().remember(fact.with_source(context.message().id)).await?;
        Ok(word)
    });
    let mut stage = Stage::with(|builder| builder.tool(sum_up.with_description("Sums up"))).await;
    let question = stage.asks("ana", "Ana moved to Lima");
    stage.model.asked().await.calls(&[("sum_up", json!({}))]);
    let asked = stage.model.asked().await;
    assert_eq!(asked.prompt, "What was said so far, in a word?");
    asked.writes("Ana lives in Lima");
    stage.model.asked().await.writes("I see");
    let answer = answer(question).await;
    assert_eq!(results(&answer), [("sum_up", true, "Ana lives in Lima")]);
    assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (30, 6), "its call counts");
    let audience = Audience::new("dm:ana".parse().expect("valid"), "ana".parse().expect("valid"));
    let known = stage.agent.records().facts().recall(&audience, &FactQuery::new("Where does Ana live?")).await;
    let known = known.expect("a recall");
    assert_eq!(known.facts[0].fact.text, "Ana lives in Lima");
    assert_eq!(known.facts[0].fact.source, Some(answer.message.expect("a message")));
    stage.ends().await;
}
