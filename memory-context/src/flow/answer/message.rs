//! The answer to a message: a text and actions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Deserializer;

use super::Mistake;
use super::extract::{MAX_ANSWER, behind_thinking, extract};
use super::fields::Fields;
use super::shape::{RESPONSE, Shape};
use crate::prompt::{MemoryUpdate, Unclear};
use crate::state::Values;
use crate::tool::reserved::{IGNORE, REPLY};

/// The most actions of one answer.
pub const MAX_ACTIONS: usize = 16;

/// The answer to a message.
///
/// ```
/// use memory_context::flow::answer::{MessageAnswer, Mode};
///
/// let answer = MessageAnswer::parse(
///     "Sure!\n<response><thought>a < b</thought><actions>REPLY</actions><text>Yes.</text></response>",
/// )?;
/// assert_eq!((answer.thought.as_str(), answer.text.as_str()), ("a < b", "Yes."));
/// assert_eq!(answer.mode(), Mode::Simple);
/// let plain = MessageAnswer::parse("Yes, a < b.")?;
/// assert_eq!((plain.text.as_str(), plain.mode()), ("Yes, a < b.", Mode::Simple));
/// let cut = MessageAnswer::parse(r#"{"actions": ["REPLY"]}"#).unwrap_err();
/// assert_eq!(cut.to_string(), "missing: thought, text");
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MessageAnswer {
    /// The model's reason; empty if the answer is plain text.
    pub thought: String,
    /// The names of the actions, in their order; at least one, at most [`MAX_ACTIONS`]. [`IGNORE`] is the only one if it is there.
    pub actions: Vec<String>,
    /// The parameters of actions, by the names of the actions.
    pub parameters: BTreeMap<String, Values>,
    /// The names of the providers that the actions need.
    pub providers: Vec<String>,
    /// The text to say; may be empty if [`REPLY`] is not an action.
    pub text: String,
    /// Updates of the prompt memory.
    pub memory: Vec<MemoryUpdate>,
}

/// How an answer is processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The text is said, and nothing else is done.
    Simple,
    /// The actions are run.
    Actions,
    /// Nothing is said or done.
    Ignore,
}

static SHAPE: LazyLock<Shape> = LazyLock::new(|| {
    let leaves = &["thought", "text", "action", "parameters", "provider", "simple", "store", "change", "match"];
    Shape::new(leaves, &["actions", "providers", "memory", "update"])
});

impl MessageAnswer {
    /// Parses the text of a model. Thought and actions are required, and so is a text if [`REPLY`] is one of the actions. A text that has
    /// neither XML with a tag of the form nor JSON with one of its fields is plain text, which is said unchanged.
    ///
    /// If [`IGNORE`] is beside other actions, it is dropped if there is a text; otherwise the other actions are dropped.
    pub fn parse(answer: &str) -> Result<Self, Mistake> {
        Self::parse_meant(answer, str::to_owned)
    }

    /// Parses the text of a model that was asked for plain text. Everything after its thinking is the text, even if it looks like a form.
    /// Only [`IGNORE`] alone is not a text.
    pub fn plain(answer: &str) -> Result<Self, Mistake> {
        let text = behind_thinking(answer).unwrap_or_default().trim_end();
        match text.len() {
            0 => Err(Mistake::NoText),
            length if length > MAX_ANSWER => Err(Mistake::TooLong { limit: MAX_ANSWER }),
            _ if text == IGNORE => Ok(Self::ignored()),
            _ => Ok(Self::saying(text.to_owned())),
        }
    }

    /// Like [`parse`](Self::parse), but resolves the aliases of actions with `meant`.
    pub(in crate::flow) fn parse_meant(answer: &str, meant: impl Fn(&str) -> String) -> Result<Self, Mistake> {
        let values = match extract(answer, &SHAPE) {
            Ok(values) => values,
            Err(mistake) => return without_form(answer).ok_or(mistake),
        };
        let mut fields = Fields::new(&values);
        let thought = fields.required("thought")?;
        let mut actions = fields.required_names("actions", "action")?;
        actions.iter_mut().for_each(|action| *action = meant(action));
        let is_ignored = actions.iter().any(|action| is(action, IGNORE));
        let says = actions.iter().any(|action| is(action, REPLY));
        let text = if says && !is_ignored { fields.required("text")? } else { fields.text("text")? };
        let providers = fields.names("providers", "provider")?;
        let parameters = fields.objects("parameters")?;
        let parameters = parameters.into_iter().map(|(action, values)| (meant(&action), values)).collect();
        let memory = fields.items("memory", "update", update)?;
        if is_ignored {
            if !text.is_empty() {
                actions.retain(|action| !is(action, IGNORE));
            }
            if text.is_empty() || actions.is_empty() {
                actions = vec![IGNORE.to_owned()];
            }
        }
        // A second `REPLY` right after the first would say the same text again.
        actions.dedup_by(|one, other| is(one, REPLY) && is(other, REPLY));
        if actions.len() > MAX_ACTIONS {
            return Err(fields.invalid("actions", "a list of at most 16 names"));
        }
        fields.finish()?;
        Ok(Self { thought, actions, parameters, providers, text, memory })
    }

    /// Whether the answer was plain text, that is, it has no thought.
    pub(in crate::flow) fn is_plain(&self) -> bool {
        self.thought.is_empty()
    }

    /// Makes an answer that says and does nothing.
    pub(in crate::flow) fn ignored() -> Self {
        Self { actions: vec![IGNORE.to_owned()], ..Self::saying(String::new()) }
    }

    /// Makes an answer that says a text, without a reason.
    fn saying(text: String) -> Self {
        let (parameters, providers) = (BTreeMap::new(), Vec::new());
        Self {
            thought: String::new(),
            actions: vec![REPLY.to_owned()],
            parameters,
            providers,
            text,
            memory: Vec::new(),
        }
    }

    /// The parameters of an action; empty if the model gave none.
    pub fn parameters_of(&self, action: &str) -> Values {
        let told = self.parameters.iter().find(|(name, _)| name.eq_ignore_ascii_case(action));
        told.map(|(_, values)| values.clone()).unwrap_or_default()
    }

    /// Returns [`Mode::Simple`] if the only action is [`REPLY`], no provider is requested and there is a text.
    pub fn mode(&self) -> Mode {
        match &self.actions[..] {
            [only] if is(only, IGNORE) => Mode::Ignore,
            [only] if is(only, REPLY) && self.providers.is_empty() && !self.text.is_empty() => Mode::Simple,
            _ => Mode::Actions,
        }
    }
}

/// Returns a text without a form as an answer, though a form was asked for; `None` if it is blank or too long, if its thinking does not end,
/// or if it holds a form that was not read: a broken one, or one inside another object.
fn without_form(answer: &str) -> Option<MessageAnswer> {
    let text = behind_thinking(answer)?.trim();
    let is_form = SHAPE.markup(text).next().is_some() || holds_object(text);
    (!text.is_empty() && text.len() <= MAX_ANSWER && !is_form).then(|| MessageAnswer::saying(text.to_owned()))
}

/// Whether a text holds a form in JSON that was not read. Other objects may be code, even if they have a name of the form, such as `text`.
fn holds_object(text: &str) -> bool {
    let end_of = |at: usize| {
        let mut read = Deserializer::from_str(&text[at..]).into_iter::<IgnoredAny>();
        read.next()?.ok()?;
        Some(at + read.byte_offset())
    };
    // Only the form has a thought, which must not be said.
    if objects(text).next().is_some_and(|at| last_name(text, "thought") > Some(at)) {
        return true;
    }
    let last = last_name(text, "actions").max(last_name(text, "memory"));
    let is_ours = |at: usize| match first_name(text, at) {
        Some("actions" | RESPONSE) => true,
        Some(name) => SHAPE.has(name) && last > Some(at),
        None => false,
    };
    let fenced = text.trim_start_matches("```json").trim_start();
    let whole_text = fenced.starts_with('{').then(|| text.len() - fenced.len());
    let mut behind = 0;
    for at in whole_text.into_iter().chain(objects(text).filter(|at| is_ours(*at))) {
        // What lies inside a whole object is whole, and is read only once however deep it lies.
        if at >= behind {
            let Some(end) = end_of(at) else { return true };
            behind = end;
        }
    }
    false
}

/// The position at which the first form of an answer may begin: a tag of it, or any object in JSON, since a later name may show that it is
/// one.
pub(in crate::flow) fn form_in(text: &str) -> Option<usize> {
    let markup = SHAPE.markup(text).next().map(|found| found.start);
    markup.into_iter().chain(objects(text).next()).min()
}

/// The positions of the braces that begin an object in JSON with a name.
fn objects(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices('{').map(|(at, _)| at).filter(|at| text[at + 1..].trim_start().starts_with('"'))
}

/// The first name of the object that begins at a position.
fn first_name(text: &str, at: usize) -> Option<&str> {
    let (name, _) = text[at + 1..].trim_start().strip_prefix('"')?.split_once('"')?;
    Some(name)
}

/// The position of the last name of an object that is this one, even if the text ends after it.
fn last_name(text: &str, name: &str) -> Option<usize> {
    let quoted = format!("\"{name}\"");
    let is_name = |at: &usize| {
        let rest = text[at + quoted.len()..].trim_start();
        rest.is_empty() || rest.starts_with(':')
    };
    text.rmatch_indices(&quoted).map(|(at, _)| at).find(is_name)
}

fn update(fields: &mut Fields<'_>) -> Result<MemoryUpdate, Mistake> {
    let (store, change) = (fields.text("store")?, fields.text("change")?);
    let update = MemoryUpdate::of_words(&store, &change, &fields.text("text")?, &fields.text("match")?);
    update.map_err(|Unclear { field, expected }| fields.invalid(field, expected))
}

pub(in crate::flow) fn is(action: &str, name: &str) -> bool {
    action.eq_ignore_ascii_case(name)
}

impl fmt::Debug for MessageAnswer {
    /// Shows only the sizes: payloads stay out of logs, and a model can write anything as a name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, actions, providers) = (self.text.len(), self.actions.len(), self.providers.len());
        write!(f, "MessageAnswer({text} bytes, {actions} actions, {providers} providers)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(answer: &str) -> (String, String, String, String) {
        let MessageAnswer { thought, actions, providers, text, .. } = MessageAnswer::parse(answer).expect(answer);
        (thought, actions.join("+"), providers.join("+"), text)
    }

    #[test]
    fn the_same_answer_is_read_from_any_form() {
        let whole = |answer: &str| {
            let expected = ("why".into(), "REPLY+FOLLOW_ROOM".into(), "FAQ+DOCS".into(), "Hello!".into());
            assert_eq!(texts(answer), expected, "{answer}");
        };
        let fields = "<thought>why</thought> <actions>REPLY, FOLLOW_ROOM,</actions>\
            <providers>FAQ,DOCS</providers><text> Hello!\n</text><simple>false</simple>";
        whole(fields);
        whole(&format!("<response>{fields}</response>"));
        whole(&format!("I use the <text> tag & more:\n```xml\n<response>{fields}</response>\n```\nDone </text>."));
        whole(&format!("<response><thought>draft</thought></response><response>{fields}</response>"));
        whole(&format!("<think><response><thought>draft</think><response>{fields}</response>"));
        let quoted = format!("<text>\n</think>\n<response>{fields}</response></text>");
        let quoting = format!("<response><thought>t</thought><actions>REPLY</actions>{quoted}</response>");
        assert_eq!(MessageAnswer::parse(&quoting).expect("whole").actions, ["REPLY"], "what it quotes is no answer");
        whole(
            "<response><thought>why</thought><actions><action>REPLY</action><action>FOLLOW_ROOM</action></actions>\
             <providers><provider>FAQ</provider><provider>DOCS</provider></providers><text>Hello!</text></response>",
        );
        let json = r#"{"thought":"why","actions":["REPLY","FOLLOW_ROOM"],"providers":"FAQ,DOCS","text":"Hello!"}"#;
        whole(json);
        whole(&format!("Here {{it}} is:\n```json\n{json}\n```\n{{\"text\":\"more\"}}"));
        whole(&format!(r#"{{"note":1}} {{"response":{json}}}"#));
        for code in ["if a { b }", "fn f() {}", r#"{"a": 1}"#] {
            whole(&format!("{}{json}", code.repeat(40)));
        }
    }

    #[test]
    fn only_the_tags_of_the_answer_are_markup() {
        for (text, read) in [
            ("if a < b && c > d { <b>x</b> }", "if a < b && c > d { <b>x</b> }"),
            ("a &lt; b &amp;&amp; &#65;&#x42; &nbsp; & R&D;", "a < b && AB &nbsp; & R&D;"),
            ("<![CDATA[<text>&lt;</text>]]>", "<text>&lt;</text>"),
            ("say <thought>x</thought> and <text>y</text>", "say <thought>x</thought> and <text>y</text>"),
            ("<textarea>a</textarea><!-- b -->", "<textarea>a</textarea><!-- b -->"),
            (r#"{"thought":"a","actions":"b"}"#, r#"{"thought":"a","actions":"b"}"#),
            ("<?php 1 ?> <!DOCTYPE html> \u{1F600}", "<?php 1 ?> <!DOCTYPE html> \u{1F600}"),
        ] {
            let answer =
                format!("<response><thought>t</thought><actions>REPLY</actions><text>{text}</text></response>");
            assert_eq!(texts(&answer).3, read);
        }
        let json = r#"{"thought":"t","actions":["REPLY"],"text":"<response><text>a</text></response>"}"#;
        assert_eq!(texts(json).3, "<response><text>a</text></response>");
    }

    #[test]
    fn mistakes_say_what_is_missing_and_quote_nothing() {
        let behind_code = r#"{"a": b}"#.repeat(40) + r#"{"thought":"xyzzy","actions":["REPLY"],"text":"Hi"}"#;
        for (answer, mistake) in [
            ("", "there is no answer in XML or JSON"),
            (" \n", "there is no answer in XML or JSON"),
            ("<response>xyzzy</response>", "there is no answer in XML or JSON"),
            ("<response><thought>xyzzy</thought><text>xyzzy</text></response>", "missing: actions"),
            ("<thought> </thought><actions>,</actions>", "missing: thought, actions"),
            ("<thought>xyzzy</thought><actions>SEARCH,reply</actions><text> </text>", "missing: text"),
            (r#"{"thought":"a","actions":"A","parameters":["xyzzy"]}"#, "parameters must be a JSON object of objects"),
            (
                r#"{"thought":"a","actions":"A","parameters":{"A":"xyzzy"}}"#,
                "parameters must be a JSON object of objects",
            ),
            (
                "<thought>a</thought><actions>A</actions><parameters>{xyzzy</parameters>",
                "parameters must be a JSON object of objects",
            ),
            ("<response><thought>xyzzy</thought><actions>REPLY</actions><text>xyz", "<text> is not closed"),
            ("<response><thought>xyzzy</thought><actions>REPLY</actions>", "<response> is not closed"),
            ("<response><thought>xyzzy<actions>REPLY</actions></response>", "<thought> is not closed"),
            ("<response><actions>REPLY</response>", "<actions> is not closed"),
            ("<thought>a</thought><thought>b</thought><actions>c</actions>", "thought must be one text"),
            ("{\"thought\": \"xyzzy\",\n \"actions\": [", "not valid JSON at line 2 column 13"),
            (r#"{"thought": 1, "actions": "REPLY"}"#, "thought must be one text"),
            (r#"{"thought": "a", "actions": [{"a": 1}]}"#, "actions must be a list of names"),
            (r#"{"xyzzy": "a", "#, "not valid JSON at line 1 column 15"),
            (r#"Sure! {"text": "xyzzy", "thought": "xyzzy", "#, "not valid JSON at line 1 column 44"),
            ("Sure!\n{\"thought\": \"xyzzy\", \"actions\": [", "not valid JSON at line 2 column 33"),
            (r#"{"answer":{"thought":"xyzzy","actions":["REPLY"],"text":"Hi"}}"#, "there is no answer in XML or JSON"),
            (
                r#"{"answer":{"id":1,"thought":"xyzzy","actions":["REPLY"],"text":"Hi"}}"#,
                "there is no answer in XML or JSON",
            ),
            (r#"{"a":{"text":"a"}} {"thought":"xyzzy","#, "not valid JSON at line 1 column 38"),
            (r#"Sure: {"id":1,"thought":"xyzzy","actions":["REP"#, "not valid JSON at line 1 column 47"),
            (&behind_code, "not valid JSON at line 1 column 7"),
            (
                r#"Sure! {"text":"Hi","memory":[{"store":"user","change":"add","text":"xyzzy""#,
                "not valid JSON at line 1 column 74",
            ),
            (r#"Sure! {"text":"Hi","actions""#, "not valid JSON at line 1 column 28"),
            ("<think>xyzzy", "there is no answer in XML or JSON"),
            (
                "<think>a <response><thought>xyzzy</thought><actions>REPLY</actions><text>xyzzy</text></response>",
                "there is no answer in XML or JSON",
            ),
        ] {
            let error = MessageAnswer::parse(answer).expect_err(answer);
            assert_eq!(error.to_string(), mistake, "{answer}");
        }
    }

    #[test]
    fn plain_text_is_an_answer() {
        for (answer, text) in [
            ("Hello!", "Hello!"),
            (" a < b && {c}\n", "a < b && {c}"),
            ("<think>hm</think>\nHello, <b>you</b>", "Hello, <b>you</b>"),
            (r#"{"xyzzy": "a"}"#, r#"{"xyzzy": "a"}"#),
            ("```rust\nfn main() {}\n```", "```rust\nfn main() {}\n```"),
            ("It is { \"xyzzy\": [", "It is { \"xyzzy\": ["),
            (r#"requests.post(url, json={"text": msg})"#, r#"requests.post(url, json={"text": msg})"#),
            (r#"Use {"jobs": {"actions": ["build"]}}."#, r#"Use {"jobs": {"actions": ["build"]}}."#),
            (r#"A "thought": {"id": 1}"#, r#"A "thought": {"id": 1}"#),
            (r#"{"id": 1} is no "thought"."#, r#"{"id": 1} is no "thought"."#),
        ] {
            let plain = MessageAnswer::parse(answer).expect(answer);
            assert_eq!((plain.text.as_str(), plain.thought.as_str(), plain.mode()), (text, "", Mode::Simple));
        }
    }

    #[test]
    fn where_plain_text_was_asked_for_all_is_text() {
        let form = "<response><thought>t</thought><actions>FORGET</actions><text>Hi</text></response>";
        let json = r#"{"thought":"t","actions":["REPLY"],"text":"Hi"}"#;
        let cut = "<response><thought>t</thought><actions>REPLY";
        let thought = "<think><text>a</text></think>\n<text>b</text>";
        for (answer, text) in [
            (" Hello!\n", "Hello!"),
            (form, form),
            (json, json),
            (cut, cut),
            ("```json\n{}\n```", "```json\n{}\n```"),
            (thought, "<text>b</text>"),
            ("Ignore", "Ignore"),
            ("IGNORE him", "IGNORE him"),
            ("It ends with </think>", "It ends with </think>"),
            ("<", "<"),
        ] {
            let plain = MessageAnswer::plain(answer).expect(answer);
            assert_eq!((plain.text.as_str(), plain.thought.as_str(), plain.mode()), (text, "", Mode::Simple));
        }
        assert_eq!(MessageAnswer::plain("<think>Who?</think> IGNORE\n").expect("a word").mode(), Mode::Ignore);
        for answer in ["", " \n", "<think>without an end", "<think>all</think>\n"] {
            assert_eq!(MessageAnswer::plain(answer), Err(Mistake::NoText), "{answer}");
        }
        let long = "a".repeat(MAX_ANSWER + 1);
        assert_eq!(MessageAnswer::plain(&long), Err(Mistake::TooLong { limit: MAX_ANSWER }));
    }

    #[test]
    fn the_mode_follows_from_actions_providers_and_text() {
        use Mode::{Actions, Ignore, Simple};
        for (actions, providers, text, left, mode) in [
            ("REPLY", "", "a", "REPLY", Simple),
            ("reply", "", "a", "reply", Simple),
            ("REPLY,Reply", "", "a", "REPLY", Simple),
            ("REPLY", "FAQ", "a", "REPLY", Actions),
            ("REPLY,FOLLOW_ROOM", "", "a", "REPLY+FOLLOW_ROOM", Actions),
            ("FOLLOW_ROOM", "", "a", "FOLLOW_ROOM", Actions),
            ("IGNORE", "", "", "IGNORE", Ignore),
            ("IGNORE", "", "a", "IGNORE", Ignore),
            ("REPLY,IGNORE", "", "a", "REPLY", Simple),
            ("REPLY,Ignore", "", "", "IGNORE", Ignore),
            ("REPLY,IGNORE,Reply", "", "a", "REPLY", Simple),
            ("IGNORE,IGNORE", "", "a", "IGNORE", Ignore),
        ] {
            let answer = format!(
                "<thought>t</thought><actions>{actions}</actions><providers>{providers}</providers><text>{text}</text>"
            );
            let answer = MessageAnswer::parse(&answer).expect("whole");
            assert_eq!(
                (answer.actions.join("+").as_str(), answer.mode()),
                (left, mode),
                "{actions} {providers} {text}"
            );
        }
    }

    #[test]
    fn actions_are_told_what_the_model_says() {
        let told = r#"{"SEND_MAIL": {"to": "bo", "urgent": true}, "WAIT": {}}"#;
        for answer in [
            format!("<thought>t</thought><actions>send_mail,WAIT,LOOK</actions><parameters>{told}</parameters>"),
            format!(r#"{{"thought":"t","actions":["send_mail","WAIT","LOOK"],"parameters":{told}}}"#),
        ] {
            let answer = MessageAnswer::parse(&answer).expect("whole");
            let mail = answer.parameters_of("SEND_MAIL");
            assert_eq!((mail["to"].as_str(), mail["urgent"].as_bool()), (Some("bo"), Some(true)));
            assert_eq!(answer.parameters_of("send_mail"), mail);
            assert!(answer.parameters_of("WAIT").is_empty() && answer.parameters_of("LOOK").is_empty());
        }
        for none in ["", "<parameters></parameters>", "<parameters>{}</parameters>"] {
            let answer = MessageAnswer::parse(&format!("<thought>t</thought><actions>LOOK</actions>{none}"));
            assert!(answer.expect("whole").parameters.is_empty());
        }
    }

    #[test]
    fn what_is_to_be_kept_comes_with_the_answer() {
        use crate::prompt::MemoryStore::{Memory, User};
        let said = "<response><thought>t</thought><actions>REPLY</actions><text>Noted</text>";
        let xml = format!(
            "{said}<memory><update><store>user</store><change>add</change><text>Ana likes a < b</text></update>
             <update><change>remove</change><match>Friday</match></update></memory></response>"
        );
        let json = r#"{"thought":"t","actions":["REPLY"],"text":"Noted","memory":[
            {"store":"user","change":"add","text":"Ana likes a < b"},{"change":"REMOVE","match":"Friday"}]}"#;
        for answer in [xml.as_str(), json] {
            let answer = MessageAnswer::parse(answer).expect("whole");
            let expected = [MemoryUpdate::add(User, "Ana likes a < b"), MemoryUpdate::remove(Memory, "Friday")];
            assert_eq!((answer.text.as_str(), &answer.memory[..]), ("Noted", &expected[..]));
        }
        for (memory, mistake) in [
            ("<update><store>team</store><text>a</text></update>", "memory[0].store must be user or memory"),
            ("<update><change>forget</change></update>", "memory[0].change must be add, replace or remove"),
            ("<update><change>replace</change></update>", "memory[0].text must be what to keep"),
            ("<update><change>remove</change></update>", "memory[0].match must be a part of the lines to remove"),
            ("Ana likes tea", "memory must be a list of elements"),
        ] {
            let answer = MessageAnswer::parse(&format!("{said}<memory>{memory}</memory></response>"));
            assert_eq!(answer.expect_err(memory).to_string(), mistake);
        }
        assert!(MessageAnswer::parse(&format!("{said}<memory></memory></response>")).expect("whole").memory.is_empty());
    }

    #[test]
    fn there_are_not_too_many_actions() {
        let of = |count: usize| {
            MessageAnswer::parse(&format!("<thought>t</thought><actions>{}</actions>", "LOOK,".repeat(count)))
        };
        assert_eq!(of(MAX_ACTIONS).expect("sixteen").actions.len(), MAX_ACTIONS);
        assert_eq!(of(MAX_ACTIONS + 1).expect_err("more").to_string(), "actions must be a list of at most 16 names");
    }

    #[test]
    fn debug_shows_nothing_that_a_model_wrote() {
        let answer = MessageAnswer::parse(
            r#"{"thought":"xyzzy","actions":["xyzzy"],"providers":"xyzzy","text":"xyzzy","parameters":{"xyzzy":{}}}"#,
        );
        assert!(!format!("{answer:?}").contains("xyzzy"));
    }

    #[test]
    fn a_hostile_answer_takes_no_more_time_than_its_length() {
        for part in ["<![CDATA[", "<text ", "<response>", "</text", "{", "<think>", "&", "<text>&lt;"] {
            // Whether it can be read or not: that it is over at all is what counts.
            let _ = MessageAnswer::parse(&part.repeat(MAX_ANSWER / part.len()));
        }
        let long = format!("<thought>t</thought><actions>REPLY</actions><text>{}</text>", "a".repeat(MAX_ANSWER));
        assert_eq!(MessageAnswer::parse(&long).expect_err("too long").to_string(), "longer than 262144 bytes");
    }

    #[test]
    fn what_nests_without_end_is_refused() {
        let deep = |open: &str, close: &str| open.repeat(10_000) + &close.repeat(10_000);
        for answer in [deep("{\"actions\":", "}"), deep("<text>", ""), deep("<actions>", "</actions>")] {
            assert!(MessageAnswer::parse(&answer).is_err());
        }
    }
}
