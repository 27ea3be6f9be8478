//! A conversation of 79 turns over SQLite with a model over HTTP, in which each built-in tool, each provider and most
//! failures occur. The files beside it have the result of each turn with the export of the memory, and the last prompt
//! of each room, without the parts that change by run. `MEMORY_WRITE_GOLDEN=1 cargo test -p agent-memory-context --test
//! golden` writes them again.

#[path = "../common/engine.rs"]
mod engine;
mod faults;
#[path = "../conversations/http.rs"]
mod http;
#[path = "../conversations/model.rs"]
mod model;
mod play;
mod record;
mod tools;

use std::time::Duration;

use axum::http::StatusCode;
use memory_context::agent::Limits;
use memory_context::records::Attachment;
use serde_json::{Value, json};

use crate::faults::{Homes, NoVectors};
use crate::play::{Line, Play, Reply};

/// Ana says something to the agent in private.
fn ana(text: &'static str) -> Line {
    Line { room: "dm:ana", user: "ana", text, ..Line::default() }
}

/// Bo says something to the group.
fn bo(text: &'static str) -> Line {
    Line { room: "plaza", user: "bo", text, ..Line::default() }
}

/// Bo says something to the agent in the group.
fn bo_to_ada(text: &'static str) -> Line {
    Line { is_addressed: true, ..bo(text) }
}

/// Dan says something to the agent in private.
fn dan(text: &'static str) -> Line {
    Line { room: "dm:dan", user: "dan", text, ..Line::default() }
}

fn writes(text: &str) -> Reply {
    Reply::Writes(text.to_owned())
}

/// An answer in XML, with more fields after the actions.
fn acts(actions: &str, more: &str, text: &str) -> Reply {
    writes(&format!(
        "<response><thought>because</thought><actions>{actions}</actions>{more}<text>{text}</text></response>"
    ))
}

fn keeps(updates: &str, text: &str) -> Reply {
    acts("REPLY", &format!("<memory>{updates}</memory>"), text)
}

fn decides(action: &str) -> Reply {
    writes(&format!("<response><reasoning>because</reasoning><action>{action}</action></response>"))
}

fn calls(tool: &'static str, arguments: Value) -> Reply {
    Reply::Calls(vec![(tool, arguments)])
}

#[tokio::test]
async fn a_conversation_in_which_everything_happens() {
    let mut play = Play::start().await;
    play.reflections.push_back(json!({
        "thought": "I was quick.",
        "facts": [
            { "claim": "Ana lives in Lima", "subject": "ana", "type": "fact" },
            { "claim": "Ana likes coffee", "subject": "ana", "type": "opinion" },
            { "claim": "Ana sings", "subject": "ana", "already_known": true },
            { "claim": "Nobody knows Zoe", "subject": "zoe" }
        ],
        "relationships": [{ "sourceEntityId": "ana", "targetEntityId": "ada", "tags": ["friend"] }]
    }));
    greets(&mut play).await;
    calls_tools(&mut play).await;
    answers_in_a_form(&mut play).await;
    model_fails(&mut play).await;
    keeps_and_forgets(&mut play).await;
    looks_at_what_comes(&mut play).await;
    takes_part_in_a_group(&mut play).await;
    is_interrupted(&mut play).await;
    hears_what_breaks_off(&mut play).await;
    lacks_a_part(&mut play).await;
    loses_its_ledger(&mut play).await;
    runs_out_of_time(&mut play).await;
    finds_no_vectors(&mut play).await;
    finds_by_meaning(&mut play).await;
    is_heard_as_it_writes(&mut play).await;
    hears_and_speaks_otherwise(&mut play).await;

    let (turns, conversation, prompts) = play.ends().await;
    assert_eq!(turns, 79);
    record::compare("conversation.jsonl", &conversation);
    record::compare("prompts.txt", &prompts);
}

async fn greets(play: &mut Play) {
    play.hears(ana("Hello"), vec![writes("Hello, Ana!")]).await;
    play.hears(ana("How are you?"), vec![writes("Fine.")]).await;
    play.hears(ana("Never mind"), vec![writes("IGNORE")]).await;
    play.hears(ana("Do nothing"), vec![calls("NONE", json!({})), writes("I do nothing.")]).await;
    let quoted = "Eve wrote:\n<response><thought>t</thought><actions>announce</actions><text>Dinner</text></response>";
    play.hears(ana("What did Eve write?"), vec![writes(quoted)]).await;
}

/// With a model that calls no tools by itself.
async fn answers_in_a_form(play: &mut Play) {
    play.restarts(|builder| builder.without_tool_calls()).await;
    play.hears(ana("In your form, please"), vec![acts("REPLY", "", "As you like.")]).await;
    let answer = json!({ "thought": "because", "actions": ["REPLY"], "text": "As you like." });
    play.hears(ana("Say it in JSON"), vec![writes(&answer.to_string())]).await;
    let fenced = format!("Here it is:\n```json\n{answer}\n```");
    play.hears(ana("And in a fence"), vec![writes(&fenced)]).await;
    play.hears(ana("And without"), vec![writes("As you like.")]).await;
    play.hears(ana("Never mind that"), vec![acts("IGNORE", "", "")]).await;
    play.hears(ana("Do nothing again"), vec![acts("REPLY, NONE", "", "I do nothing.")]).await;
    let parameters = r#"<parameters>{"weather":{"place":"Quito"}}</parameters>"#;
    play.hears(ana("And in Quito?"), vec![acts("weather", parameters, ""), acts("REPLY", "", "Everywhere.")]).await;
    let tides = acts("REPLY", "<providers>TIDES</providers>", "Let me see.");
    play.hears(ana("Is it high water?"), vec![tides, acts("REPLY", "", "At noon.")]).await;
    let friday = || keeps("<update><store>memory</store><text>The deadline is Friday</text></update>", "Friday it is.");
    play.hears_without_prompt_memory(ana("It is due on Friday"), vec![friday()]).await;
    play.hears(ana("On Friday, I said"), vec![friday()]).await;
    let cut = || writes("<response><thought>because</thought><actions>REPLY");
    play.hears(ana("Stop in the middle"), vec![cut(), cut(), cut()]).await;
    let cut = Reply::BreaksOff("<response><thought>because</thought><actions>REPLY</actions><text>As y", "length");
    play.hears(ana("And at the end"), vec![cut, acts("REPLY", "", "As you like.")]).await;
    play.restarts(|builder| builder).await;
}

async fn calls_tools(play: &mut Play) {
    let lima = || json!({ "place": "Lima" });
    play.hears(ana("Does it rain in Lima?"), vec![calls("weather", lima()), writes("It does.")]).await;
    let both = Reply::Calls(vec![("weather", lima()), ("weather", json!({ "place": "Cusco" }))]);
    play.hears(ana("And in Cusco?"), vec![both, writes("There too.")]).await;
    play.hears(ana("Announce dinner"), vec![calls("announce", json!({}))]).await;
    play.hears(ana("Count"), vec![calls("count", json!({})), writes("That was all.")]).await;
    let broken = Reply::Calls(vec![("fail", json!({})), ("panic", json!({}))]);
    play.hears(ana("Try the line"), vec![broken, writes("It is down.")]).await;
    play.hears(ana("Wait for it"), vec![calls("hang", json!({})), writes("It does not come.")]).await;
    play.hears(ana("The weather of seven?"), vec![calls("weather", json!({ "place": 7 })), writes("No.")]).await;
    let wrong = Reply::Calls(vec![("weather", json!("{")), ("secret", json!({})), ("dance", json!({}))]);
    play.hears(ana("Do what you can't"), vec![wrong, writes("I can't.")]).await;
    let again = (0..7).map(|_| calls("weather", lima())).chain([writes("It rains.")]).collect();
    play.hears(ana("Is it still raining?"), again).await;
    let tides = json!({ "providers": ["tides", "nothing"] });
    play.hears(ana("When is high water?"), vec![calls("LOOK_UP", tides), writes("At noon.")]).await;
    let unknown = json!({ "providers": ["nothing"] });
    play.hears(ana("When is nothing?"), vec![calls("LOOK_UP", unknown), writes("Never.")]).await;
}

async fn model_fails(play: &mut Play) {
    play.hears(ana("Say nothing"), vec![writes(""), writes("Nothing.")]).await;
    let thinking = || writes("<think>And if");
    play.hears(ana("What do you think?"), vec![thinking(), thinking(), thinking()]).await;
    let busy = Reply::Fails(StatusCode::TOO_MANY_REQUESTS);
    play.hears(ana("Are you busy?"), vec![busy, writes("No more.")]).await;
    play.hears(ana("Are you there?"), vec![Reply::AlwaysFails(StatusCode::INTERNAL_SERVER_ERROR)]).await;
    play.hears(ana("Is this allowed?"), vec![Reply::Fails(StatusCode::BAD_REQUEST)]).await;
    play.hears(ana("Do they know you?"), vec![Reply::Fails(StatusCode::UNAUTHORIZED)]).await;
    play.hears(ana("Think for ever"), vec![Reply::Hangs]).await;
}

async fn keeps_and_forgets(play: &mut Play) {
    let tea = json!({ "store": "user", "text": "Ana likes tea" });
    play.hears(ana("I like tea"), vec![calls("REMEMBER", tea), writes("Noted.")]).await;
    let changes = Reply::Calls(vec![
        ("REMEMBER", json!({ "change": "add", "text": "The room is booked" })),
        ("REMEMBER", json!({ "change": "remove", "match": "Friday" })),
        ("REMEMBER", json!({ "store": "user", "change": "replace", "text": "Ana likes green tea" })),
        ("REMEMBER", json!({ "store": "team", "text": "no such store" })),
    ]);
    play.hears(ana("All has changed"), vec![changes, writes("So it has.")]).await;
    let moved = json!({ "fact": "Ana lives in Lima", "correction": "Ana lives in Cusco" });
    play.hears(ana("I moved to Cusco"), vec![calls("FORGET", moved), writes("Cusco, then.")]).await;
    let coffee = || json!({ "fact": "Ana likes coffee" });
    play.hears(ana("I never liked coffee"), vec![calls("FORGET", coffee()), writes("Forgotten.")]).await;
    play.hears(ana("Forget it again"), vec![calls("FORGET", coffee()), writes("I know no such thing.")]).await;
    let key = json!({ "content": "The key is under the mat" });
    play.hears(ana("The key is under the mat"), vec![calls("memory_add_document", key), writes("Kept.")]).await;
    let asks = Reply::Calls(vec![
        ("memory_query", json!({ "text": "key" })),
        ("memory_query", json!({ "question": "Where is the key?" })),
    ]);
    play.hears(ana("Where is the key?"), vec![asks, writes("Under the mat.")]).await;
    let key = json!({ "text": "mat" });
    play.hears(ana("Forget the key"), vec![calls("memory_remove_document", key), writes("Which key?")]).await;
}

async fn looks_at_what_comes(play: &mut Play) {
    let attachment = |id: &str, url: &str, content_type: &str| Attachment {
        id: id.to_owned(),
        url: url.to_owned(),
        content_type: Some(content_type.to_owned()),
        ..Attachment::default()
    };
    let attachments = vec![
        attachment("cat", "data:image/png;base64,iVBORw0KGgo=", "image/png"),
        attachment("notes", "data:text/plain;base64,YnV5IG1pbGs=", "text/plain"),
        attachment("song", "https://host/song.ogg", "audio/ogg"),
    ];
    play.hears(Line { attachments, ..bo_to_ada("Look") }, vec![writes("A cat on a roof"), writes("A cat!")]).await;
    play.hears(Line { id: Some("7"), ..ana("Once") }, vec![writes("Once.")]).await;
    play.hears(Line { id: Some("7"), ..ana("Once") }, vec![]).await;
    play.hears(Line { user: "ada", ..ana("My own echo") }, vec![]).await;
}

async fn takes_part_in_a_group(play: &mut Play) {
    play.hears(bo("Nice weather"), vec![decides("IGNORE")]).await;
    play.hears(bo("Who comes along?"), vec![writes("hm"), decides("RESPOND"), writes("I do.")]).await;
    let room = |tool| vec![calls(tool, json!({})), writes("As you wish.")];
    play.hears(bo_to_ada("Stay with us"), room("FOLLOW_ROOM")).await;
    play.hears(bo_to_ada("You may go"), room("UNFOLLOW_ROOM")).await;
    play.hears(bo_to_ada("Be quiet"), room("MUTE_ROOM")).await;
    play.hears(bo("Is it quiet?"), vec![]).await;
    play.hears(bo("Ada, speak again"), room("UNMUTE_ROOM")).await;
}

async fn is_interrupted(play: &mut Play) {
    play.hears_both(ana("What is"), ana("What is two and two?"), writes("Four.")).await;
    play.hears_across_a_restart(ana("And three and three?"), writes("Six.")).await;
    play.hears(Line { source: "radio", ..ana("Do you hear me?") }, vec![writes("Yes.")]).await;
    let cusco = json!({ "place": "Cusco" });
    play.hears(ana("Does it rain where Ana lives?"), vec![calls("weather", cusco), writes("It rains in Cusco.")]).await;
    play.hears(bo_to_ada("Goodbye"), vec![writes("Goodbye.")]).await;
}

async fn hears_what_breaks_off(play: &mut Play) {
    play.hears(dan("Tell me a story"), vec![Reply::BreaksOff("Once upon a time", "length")]).await;
    play.hears(dan("Tell me a secret"), vec![Reply::BreaksOff("The secret is", "content_filter")]).await;
}

async fn lacks_a_part(play: &mut Play) {
    let attachment = |id: &str, url: &str, content_type: &str| Attachment {
        id: id.to_owned(),
        url: url.to_owned(),
        content_type: Some(content_type.to_owned()),
        ..Attachment::default()
    };
    let attachments = vec![
        attachment("dog", "data:image/png;base64,iVBORw0KGgo=", "image/png"),
        attachment("torn", "data:text/plain;base64,YnV5I", "text/plain"),
    ];
    let blind = vec![Reply::Fails(StatusCode::BAD_REQUEST), writes("I see a dog.")];
    play.hears(Line { attachments, ..dan("Look at these") }, blind).await;
    play.reflections.push_back(json!({
        "thought": "I was cut off.",
        "facts": [{ "claim": "Dan lives in Quito", "subject": "dan", "type": "fact" }]
    }));
    play.hears(dan("Look back"), vec![writes("I do.")]).await;
    let tea = || calls("REMEMBER", json!({ "store": "user", "text": "Dan likes tea" }));
    play.hears_without_prompt_memory(dan("I like tea"), vec![tea(), writes("I can't keep that now.")]).await;
    play.hears(dan("I still like tea"), vec![tea(), writes("Now I know.")]).await;
}

async fn loses_its_ledger(play: &mut Play) {
    play.hears_without_ledger(dan("Is somebody there?")).await;
    play.hears_and_loses_the_ledger(dan("Are you back?"), || writes("I am back.")).await;
    play.hears_and_loses_the_message(dan("Are there two of you?"), || writes("I am the other one.")).await;
}

async fn runs_out_of_time(play: &mut Play) {
    let limits = Limits { run: Duration::from_secs(1), ..play::limits() };
    play.restarts(|builder| builder.limits(limits)).await;
    play.hears(dan("Take your time"), vec![Reply::Hangs]).await;
}

async fn finds_no_vectors(play: &mut Play) {
    play.restarts(|builder| builder.embedder(NoVectors)).await;
    let moved = json!({ "fact": "Dan lives in Quito", "correction": "Dan lives in Loja" });
    play.hears(dan("I moved to Loja"), vec![calls("FORGET", moved), writes("Loja, then.")]).await;
    play.hears(dan("Where does Dan live?"), vec![writes("In Loja.")]).await;
    let where_in = json!({ "question": "Who lives in Loja?" });
    play.hears(dan("Who lives in Loja?"), vec![calls("FIND_FACTS", where_in), writes("You do.")]).await;
}

async fn finds_by_meaning(play: &mut Play) {
    play.restarts(|builder| builder.embedder(Homes)).await;
    // After its answer the facts get their vectors.
    play.hears(dan("Look again"), vec![writes("I do.")]).await;
    let home = json!({ "question": "Whose home is in the south?" });
    play.hears(dan("Whose home is in the south?"), vec![calls("FIND_FACTS", home), writes("Yours.")]).await;
}

async fn is_heard_as_it_writes(play: &mut Play) {
    play.hears_as_it_is_written(dan("Sing"), Reply::Streams(&["La, la", ", la."])).await;
    play.hears(Line { source: "telegraph", ..dan("Do you hear me?") }, vec![writes("Yes.")]).await;
}

async fn hears_and_speaks_otherwise(play: &mut Play) {
    let post = "<response><thought>because</thought><post>The tide is in.</post><imagePrompt>a harbour</imagePrompt></response>";
    play.posts(writes(post)).await;
    let eve = Line { room: "dm:eve", user: "eve", text: "Hello from outside", ..Line::default() };
    play.is_posted(eve, writes("Come in.")).await;
}
