//! `chat`: whole conversations of the real binary, with a model that the test plays.

mod common;
// The tests of the message flow play it too.
#[path = "../../memory-context/tests/conversations/model.rs"]
mod model;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use axum::http::StatusCode;
use common::{Cli, eventually, stderr, stdout};
use model::{Model, Question};
use serde_json::{Value, json};

/// A conversation in progress.
struct Chat {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    errors: Option<JoinHandle<String>>,
}

impl Chat {
    /// Ana talks to Eliza, with JSON on the output.
    fn start(cli: &Cli, model: &Model, options: &[&str]) -> Self {
        let mut command = command(cli, model);
        command.arg("--json").args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut stderr = child.stderr.take().expect("it is piped");
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).expect("UTF-8");
            text
        });
        let input = child.stdin.take();
        Self { child, input, output, errors: Some(errors) }
    }

    fn types(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("it is open"), "{line}").expect("the binary reads");
    }

    /// The next line of the output; null at its end.
    fn shows(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("UTF-8");
        if line.is_empty() { Value::Null } else { serde_json::from_str(&line).expect(&line) }
    }

    /// The agent's next text.
    fn hears(&mut self) -> String {
        let line = self.shows();
        assert_eq!(line["kind"], "answer", "{line}");
        line["message"]["content"]["text"].as_str().expect("a text").to_owned()
    }

    /// The end of a line's turn, which must come next.
    fn sees(&mut self, line: u64, end: &str) -> Value {
        let shown = self.shows();
        assert_eq!(
            (&shown["kind"], &shown["line"], &shown["end"]),
            (&json!("end"), &json!(line), &json!(end)),
            "{shown}"
        );
        shown
    }

    fn interrupt(&self) {
        let status = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Ends the input. Returns the exit status and the standard error.
    fn close(mut self) -> (ExitStatus, String) {
        self.input = None;
        assert_eq!(self.shows(), Value::Null, "nothing is said after the end");
        let status = self.child.wait().expect("it ends");
        (status, self.errors.take().expect("it is taken once").join().expect("the log is read"))
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ana talks to Eliza.
fn command(cli: &Cli, model: &Model) -> Command {
    let mut command = cli.command();
    for name in ["AGENT_MEMORY_MODEL_URL", "AGENT_MEMORY_MODEL", "AGENT_MEMORY_MODEL_KEY"] {
        command.env_remove(name);
    }
    command.args(["chat", "--agent", "eliza", "--user", "ana", "--endpoint", &model.url, "--model", "small"]);
    command
}

/// Whether to answer is asked of the model, unless the environment of the process answers it.
#[tokio::test(flavor = "multi_thread")]
async fn the_environment_says_where_everything_is_answered() {
    let mut model = Model::start().await;
    for (types, question) in [(None, Question::Respond), (Some("feed, group"), Question::Answer)] {
        let cli = Cli::new();
        let mut command = command(&cli, &model);
        command.args(["--room", "kitchen", "--group", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        match types {
            Some(types) => command.env("SHOULD_RESPOND_BYPASS_TYPES", types),
            None => command.env_remove("SHOULD_RESPOND_BYPASS_TYPES"),
        };
        let mut child = command.spawn().expect("the binary runs");
        writeln!(child.stdin.take().expect("it is piped"), "Who comes?").expect("the binary reads");
        let asked = model.asked_to(question).await;
        match question {
            Question::Respond => asked.decides("IGNORE"),
            _ => asked.says("I do"),
        }
        let output =
            tokio::task::spawn_blocking(|| child.wait_with_output()).await.expect("no panic").expect("it ends");
        assert!(output.status.success());
        let shown = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!(shown.contains("I do"), question == Question::Answer, "{shown}");
    }
    let cli = Cli::new();
    let output = command(&cli, &model).env("SHOULD_RESPOND_BYPASS_TYPES", "PUB").output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("SHOULD_RESPOND_BYPASS_TYPES: "), "{}", stderr(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_kept_and_goes_on() {
    let (cli, mut model) = (Cli::new(), Model::start().await);
    for (said, answer, key) in
        [("I adopted a cat", "What is \u{1b}[31mit called?", Some("xyzzy")), ("Sunrise", "Nice", None)]
    {
        let mut command = command(&cli, &model);
        if let Some(key) = key {
            command.env("AGENT_MEMORY_MODEL_KEY", key);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        // The input ends before there is an answer, which comes all the same.
        writeln!(child.stdin.take().expect("it is piped"), "{said}").expect("the binary reads");
        let asked = model.asked_to(Question::Answer).await;
        assert_eq!(asked.authorization, key.map(|key| format!("Bearer {key}")));
        assert_eq!(asked.model, "small");
        assert!(asked.prompt.contains("ana: I adopted a cat"), "{}", asked.prompt);
        if said == "Sunrise" {
            assert!(
                asked.prompt.contains("eliza: What is") && asked.prompt.contains("ana: Sunrise"),
                "{}",
                asked.prompt
            );
        }
        asked.says(answer);
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output));
        assert_eq!(stdout(&output), format!("eliza: {}\n", answer.replace('\u{1b}', "\u{FFFD}")));
    }
    assert_eq!(cli.count(&["--under", "agent/eliza"]), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_is_one_line_and_the_conversation_goes_on() {
    let (cli, mut model) = (Cli::new(), Model::start().await);
    let mut chat = Chat::start(&cli, &model, &[]);
    chat.types("one");
    model.asked_to(Question::Answer).await.fails(StatusCode::UNAUTHORIZED);
    let end = chat.sees(1, "failed");
    let reason = end["reason"].as_str().expect("a reason");
    assert!(reason.contains("the endpoint answered 401"), "{reason}");
    chat.input.as_mut().expect("it is open").write_all(b"\n\xff\n").expect("the binary reads");
    let end = chat.sees(3, "failed");
    assert_eq!(end["reason"], "line 3 of the input can't be read: not UTF-8");
    chat.types("two");
    let asked = model.asked_to(Question::Answer).await;
    assert!(asked.prompt.contains("ana: one") && asked.prompt.contains("ana: two"), "{}", asked.prompt);
    asked.says("Both");
    assert_eq!(chat.hears(), "Both");
    chat.sees(4, "completed");
    let (status, errors) = chat.close();
    assert_eq!(status.code(), Some(1));
    let errors: Vec<_> = errors.lines().collect();
    assert!(errors.len() == 2 && errors.iter().all(|line| line.starts_with("error: ")), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_wait_for_one_another() {
    let (cli, mut model) = (Cli::new(), Model::start().await);
    let mut chat = Chat::start(&cli, &model, &[]);
    chat.types("one\ntwo");
    for (line, said) in [(1, "one"), (2, "two")] {
        let asked = model.asked_to(Question::Answer).await;
        assert_eq!(asked.prompt.contains("ana: two"), said == "two", "{}", asked.prompt);
        asked.says(&format!("{said}!"));
        assert_eq!(chat.hears(), format!("{said}!"));
        chat.sees(line, "completed");
    }
    assert!(chat.close().0.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn people_see_an_answer_as_it_is_written_and_the_tools_that_are_called() {
    let (cli, mut model) = (Cli::new(), Model::start().await);
    let mut command = command(&cli, &model);
    let mut child = command
        .arg("--verbose")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    writeln!(child.stdin.take().expect("it is piped"), "I like tea").expect("the binary reads");
    let kept = json!({ "store": "user", "text": "Ana likes \u{1b}tea" });
    model.asked_to(Question::Answer).await.calls(&[("REMEMBER", kept), ("SING", json!({}))]);
    let writing = model.asked_to(Question::Answer).await.begins();
    writing.writes("So do");
    let mut shown = [0; 12];
    child.stdout.as_mut().expect("it is piped").read_exact(&mut shown).expect("it is shown before the answer is whole");
    assert_eq!(&shown, b"eliza: So do");
    writing.writes(" I");
    writing.ends();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), " I\n"));
    let errors = stderr(&output);
    let (kept, sung) = errors.trim_end().split_once('\n').expect("two lines");
    assert_eq!(kept, r#"[REMEMBER {"store":"user","text":"Ana likes \u001btea"}] It is kept."#);
    assert!(sung.starts_with("[SING {}] failed: there is no tool of this name now"), "{sung}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_too_late_is_never_said() {
    let (cli, mut model) = (Cli::new(), Model::start().await);
    let mut chat = Chat::start(&cli, &model, &["--timeout", "1"]);
    chat.types("one");
    let mut late = model.asked_to(Question::Answer).await;
    let end = chat.sees(1, "failed");
    assert!(end["reason"].as_str().expect("a reason").contains("no answer within 1000 ms"), "{end}");
    late.is_given_up().await;
    late.says("One!");
    let (status, errors) = chat.close();
    assert_eq!((status.code(), errors.lines().count()), (Some(1), 1), "{errors}");
    assert_eq!(cli.count(&["--under", "agent/eliza"]), 1, "the message alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_rooms_are_worked_on_at_once() {
    let (cli, mut model) = (Cli::new(), Model::start().await);
    let mut chats = ["work", "home"].map(|room| Chat::start(&cli, &model, &["--room", room]));
    let mut held = Vec::new();
    for (chat, said) in chats.iter_mut().zip(["Of work", "Of home"]) {
        chat.types(said);
        let asked = model.asked_to(Question::Answer).await;
        assert!(asked.prompt.contains(&format!("ana: {said}")), "{}", asked.prompt);
        held.push((said, asked));
    }
    for (said, asked) in held.into_iter().rev() {
        asked.says(&format!("{said}?"));
    }
    for (mut chat, said) in chats.into_iter().zip(["Of work", "Of home"]) {
        assert_eq!(chat.hears(), format!("{said}?"));
        chat.sees(1, "completed");
        assert!(chat.close().0.success());
    }
    assert_eq!(cli.count(&["--space", "agent/eliza/room/work/messages"]), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_gives_up_the_answer_and_the_conversation() {
    let (cli, mut model) = (Cli::new(), Model::start().await);
    let mut chat = Chat::start(&cli, &model, &[]);
    chat.types("one\ntwo");
    let mut asked = model.asked_to(Question::Answer).await;
    chat.interrupt();
    chat.sees(1, "superseded");
    asked.is_given_up().await;
    asked.says("One!");
    assert_eq!(chat.shows(), Value::Null, "it ends with its input still open");
    assert!(chat.close().0.success());
    assert_eq!(cli.count(&["--under", "agent/eliza"]), 1, "no answer, and no other question");
    // Without an answer to cancel.
    let mut chat = Chat::start(&cli, &model, &[]);
    chat.types("two");
    model.asked_to(Question::Answer).await.says("Two!");
    assert_eq!(chat.hears(), "Two!");
    chat.sees(1, "completed");
    chat.interrupt();
    assert_eq!(chat.shows(), Value::Null);
    assert!(chat.close().0.success());
}

/// Runs a program at a terminal, whose other end is the standard streams.
const TERMINAL: &str = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

#[tokio::test(flavor = "multi_thread")]
async fn at_a_terminal_the_conversation_goes_on_behind_an_answer_that_is_given_up() {
    let (cli, mut model) = (Cli::new(), Model::start().await);
    let chat = command(&cli, &model);
    let mut terminal = Command::new("python3");
    terminal.args(["-c", TERMINAL]).arg(chat.get_program()).args(chat.get_args());
    terminal.envs(chat.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python runs");
    let mut keys = child.stdin.take().expect("it is piped");
    let mut screen = child.stdout.take().expect("it is piped");
    let mut shows = |text: &str| {
        let mut shown = Vec::new();
        while !shown.ends_with(text.as_bytes()) {
            let mut byte = [0];
            screen.read_exact(&mut byte).unwrap_or_else(|_| panic!("{text}: {}", String::from_utf8_lossy(&shown)));
            shown.push(byte[0]);
        }
    };
    let mut types = |text: &str| keys.write_all(text.as_bytes()).expect("the terminal reads");
    shows("Ctrl-D the conversation.");
    types("one\n");
    let mut asked = model.asked_to(Question::Answer).await;
    types("\u{3}");
    shows("The answer was given up.");
    asked.is_given_up().await;
    types("two\n");
    let asked = model.asked_to(Question::Answer).await;
    assert!(asked.prompt.contains("ana: one") && asked.prompt.contains("ana: two"), "{}", asked.prompt);
    asked.says("Two!");
    shows("eliza: Two!");
    types("\u{4}");
    assert!(child.wait().expect("it ends").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cut_off_by_a_second_signal_is_answered_by_the_next_chat() {
    let (cli, mut model) = (Cli::new(), Model::start().await);
    let mut chat = Chat::start(&cli, &model, &[]);
    chat.types("I like tea");
    let kept = json!({ "store": "user", "text": "Ana likes tea" });
    model.asked_to(Question::Answer).await.calls(&[("REMEMBER", kept)]);
    // An action that has begun is completed.
    let mut asked = model.asked_to(Question::Answer).await;
    // Two signals at the same time may be one.
    while asked.is_awaited() && chat.child.try_wait().expect("it is a child").is_none() {
        chat.interrupt();
        tokio::task::yield_now().await;
    }
    asked.is_given_up().await;
    let (status, errors) = chat.close();
    assert_eq!((status.code(), errors.as_str()), (Some(1), "error: it ended before every message was answered\n"));

    let mut chat = Chat::start(&cli, &model, &[]);
    let asked = model.asked_to(Question::Answer).await;
    assert!(asked.prompt.contains("Ana likes tea"), "{}", asked.prompt);
    asked.writes("So do I");
    assert_eq!(chat.hears(), "So do I");
    assert!(chat.close().0.success());
}

#[test]
fn mistakes_have_exit_code_2() {
    let cli = Cli::new();
    let whole = ["chat", "--endpoint", "http://localhost:1/v1", "--model", "m"];
    for (args, error) in [
        (&["chat", "--model", "m"][..], "--endpoint <URL>"),
        (
            &["chat", "--endpoint", "localhost:1/secret", "--model", "m"],
            "--endpoint, --character: url: must begin with http",
        ),
        (&[&whole[..], &["--agent", ""]].concat(), "--agent: "),
        (&[&whole[..], &["--user", &"secret".repeat(20)]].concat(), "--user, --room: "),
        (&[&whole[..], &["--user", "agent"]].concat(), "--user, --room: the user has another name than the agent"),
        (&[&whole[..], &["--group"]].concat(), "--room <NAME>"),
        (&[&whole[..], &["--character", "secret"]].concat(), "--character: not the JSON of a character"),
    ] {
        let line = cli.fails(2, args);
        assert!(line.contains(error) && !line.contains("secret"), "{line}");
    }
}

/// The export of Eliza's conversation with Ana.
struct Audit {
    messages: Vec<Value>,
    facts: Vec<Value>,
}

impl Audit {
    fn of(cli: &Cli) -> Self {
        let export = cli.ok(&["export"]);
        let lines = export.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
        let (documents, messages): (Vec<_>, Vec<_>) = lines.partition(|line| line["kind"] == "document");
        let is_fact = |line: &Value| line["collection"].as_str().is_some_and(|name| name.starts_with("_facts-"));
        Self { messages, facts: documents.into_iter().filter(is_fact).collect() }
    }

    /// The message with this text, which is said once.
    fn message(&self, text: &str) -> &Value {
        let found: Vec<_> = self.messages.iter().filter(|line| line["trigger"]["text"] == text).collect();
        let [message] = found[..] else { panic!("{text}: {found:?}") };
        message
    }

    /// The fact with this text.
    fn fact(&self, text: &str) -> &Value {
        self.facts.iter().find(|line| line["content"] == text).expect(text)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_shows_who_said_what_and_why() {
    let (cli, mut model) = (Cli::new(), Model::start().await);
    let mut chat = Chat::start(&cli, &model, &["--group", "--room", "kitchen", "--without-tool-calls"]);
    // Not for the agent.
    chat.types("Bo, is there tea?");
    model.asked_to(Question::Respond).await.decides("IGNORE");
    assert_eq!(chat.sees(1, "ignored")["reason"], "it does not want to answer");
    // For the agent, with an action that exists, and one that does not.
    chat.types("Eliza, remember that nuts make me ill");
    model.asked_to(Question::Respond).await.decides("RESPOND");
    let asked = model.asked_to(Question::Answer).await;
    assert!(asked.prompt.contains("**REMEMBER**") && asked.offered().is_empty(), "{}", asked.prompt);
    asked.writes(
        r#"<response><thought>because</thought><actions>REPLY, REMEMBER, SING</actions><parameters>{"REMEMBER": {"store": "user",
        "text": "Nuts make Ana ill"}}</parameters><providers></providers><text>I will</text></response>"#,
    );
    // It receives the results, and has nothing to add.
    let asked = model.asked_to(Question::Answer).await;
    assert!(
        asked.prompt.contains("REMEMBER (completed)") && asked.prompt.contains("SING (failed)"),
        "{}",
        asked.prompt
    );
    asked.acts("IGNORE", "", "");
    assert_eq!(chat.hears(), "I will");
    chat.sees(2, "completed");
    // No answer at all.
    chat.types("Eliza?");
    model.asked_to(Question::Respond).await.fails(StatusCode::UNAUTHORIZED);
    chat.sees(3, "failed");
    // By now there are enough messages for a reflection.
    for line in 4..=6 {
        chat.types(&format!("Line {line}"));
        model.asked_to(Question::Respond).await.decides("RESPOND");
        model.asked_to(Question::Answer).await.says(&format!("Answer {line}"));
        assert_eq!(chat.hears(), format!("Answer {line}"));
        chat.sees(line, "completed");
    }
    // More than eight messages were said.
    model.asked_to(Question::Reflect).await.learns("ana", "Ana drinks tea");
    eventually("the fact is kept", || Audit::of(&cli).facts.iter().any(|fact| fact["content"] == "Ana drinks tea"));
    chat.types("What does Ana drink?");
    model.asked_to(Question::Respond).await.decides("RESPOND");
    let asked = model.asked_to(Question::Answer).await;
    assert!(asked.prompt.contains("] Ana drinks tea"), "it knows what it has learned: {}", asked.prompt);
    asked.says("Tea");
    assert_eq!(chat.hears(), "Tea");
    chat.sees(7, "completed");
    let (status, errors) = chat.close();
    assert_eq!((status.code(), errors.lines().count()), (Some(1), 1), "{errors}");

    let audit = Audit::of(&cli);
    // Who said what, where.
    let ignored = audit.message("Bo, is there tea?");
    assert_eq!((&ignored["trigger"]["author"], &ignored["trigger"]["room"]), (&json!("ana"), &json!("kitchen")));
    // In which run, and why it was answered or not.
    let (asked, failed) = (audit.message("Eliza, remember that nuts make me ill"), audit.message("Eliza?"));
    let run = |message: &Value| message["metadata"]["run"].as_str().expect("a run").to_owned();
    let runs = [ignored, asked, failed].map(run);
    assert!(runs[0] != runs[1] && runs[1] != runs[2], "{runs:?}");
    let end = |message: &Value| {
        [&message["metadata"]["end"], &message["metadata"]["why"]].map(|name| name.as_str().map(str::to_owned))
    };
    assert_eq!(end(ignored), [Some("ignored".into()), Some("model".into())]);
    assert_eq!(end(asked), [Some("completed".into()), Some("model".into())]);
    assert_eq!(end(failed)[0].as_deref(), Some("failed"));
    assert!(failed["metadata"]["reason"].as_str().expect("a reason").contains("the endpoint answered 401"));
    // The agent's answers, the messages that they answer, and the reasons.
    let answer = audit.message("I will");
    assert_eq!((&answer["trigger"]["author"], &answer["trigger"]["inReplyTo"]), (&json!("eliza"), &asked["id"]));
    assert_eq!((&answer["trigger"]["thought"], run(answer)), (&json!("because"), runs[1].clone()));
    // The agent's actions, and their results.
    let results = audit.messages.iter().map(|line| &line["trigger"]["actionResult"]).filter(|result| !result.is_null());
    let results: Vec<_> = results.map(|result| (&result["action"], &result["status"], &result["run"])).collect();
    let expected =
        [("REMEMBER", "completed"), ("SING", "failed")].map(|(action, status)| (json!(action), json!(status)));
    let run_of_results = json!(runs[1]);
    let expected: Vec<_> = expected.iter().map(|(action, status)| (action, status, &run_of_results)).collect();
    assert_eq!(results, expected);
    // Its prompt memory, and what it learned of whom, from which message.
    let export = cli.ok(&["document", "query", "--collection", "_prompt", "--all", "--json"]);
    assert!(export.contains("Nuts make Ana ill"), "{export}");
    let learned = audit.fact("Ana drinks tea");
    assert_eq!(
        (&learned["metadata"]["source"], &learned["metadata"]["author"]),
        (&audit.message("Line 6")["id"], &json!("eliza"))
    );
    assert_eq!(learned["metadata"]["subject"], "ana");
}
