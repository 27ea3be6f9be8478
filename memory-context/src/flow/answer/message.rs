//! What an agent says and does.

use std::fmt;
use std::sync::LazyLock;

use super::Mistake;
use super::fields::Fields;
use super::shape::Shape;

/// The action of saying something.
pub const REPLY: &str = "REPLY";
/// The action of doing nothing.
pub const IGNORE: &str = "IGNORE";

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
/// let cut = MessageAnswer::parse(r#"{"text": "Yes."}"#).unwrap_err();
/// assert_eq!(cut.to_string(), "missing: thought, actions");
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageAnswer {
    /// Why.
    pub thought: String,
    /// The names of the actions, in their order; never none. [`IGNORE`] stands alone.
    pub actions: Vec<String>,
    /// The names of the providers that the actions need.
    pub providers: Vec<String>,
    /// What to say; may be empty.
    pub text: String,
}

/// How an answer is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The text is the answer.
    Simple,
    /// The actions are run.
    Actions,
    /// Nothing is said or done.
    Ignore,
}

static SHAPE: LazyLock<Shape> =
    LazyLock::new(|| Shape::new(&["thought", "text", "action", "provider", "simple"], &["actions", "providers"]));

impl MessageAnswer {
    /// Reads what a model wrote. Thought and actions must be there.
    ///
    /// [`IGNORE`] beside other actions does not count where there is a text; without one, nothing else counts.
    pub fn parse(answer: &str) -> Result<Self, Mistake> {
        let values = SHAPE.read(answer)?;
        let mut fields = Fields::new(&values);
        let thought = fields.required("thought")?;
        let mut actions = fields.required_names("actions", "action")?;
        let providers = fields.names("providers", "provider")?;
        let text = fields.text("text")?;
        fields.finish()?;
        if actions.len() > 1 && actions.iter().any(|action| is(action, IGNORE)) {
            if !text.is_empty() {
                actions.retain(|action| !is(action, IGNORE));
            }
            if text.is_empty() || actions.is_empty() {
                actions = vec![IGNORE.to_owned()];
            }
        }
        Ok(Self { thought, actions, providers, text })
    }

    /// Simple where the only action is [`REPLY`], no provider is asked for and there is a text.
    pub fn mode(&self) -> Mode {
        match &self.actions[..] {
            [only] if is(only, IGNORE) => Mode::Ignore,
            [only] if is(only, REPLY) && self.providers.is_empty() && !self.text.is_empty() => Mode::Simple,
            _ => Mode::Actions,
        }
    }
}

fn is(action: &str, name: &str) -> bool {
    action.eq_ignore_ascii_case(name)
}

impl fmt::Debug for MessageAnswer {
    /// Payloads stay out of logs: only the size and the names show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageAnswer")
            .field("text", &format_args!("{} bytes", self.text.len()))
            .field("actions", &self.actions)
            .field("providers", &self.providers)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(answer: &str) -> (String, String, String, String) {
        let MessageAnswer { thought, actions, providers, text } = MessageAnswer::parse(answer).expect(answer);
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
        whole(
            "<response><thought>why</thought><actions><action>REPLY</action><action>FOLLOW_ROOM</action></actions>\
             <providers><provider>FAQ</provider><provider>DOCS</provider></providers><text>Hello!</text></response>",
        );
        let json = r#"{"thought":"why","actions":["REPLY","FOLLOW_ROOM"],"providers":"FAQ,DOCS","text":"Hello!"}"#;
        whole(json);
        whole(&format!("Here {{it}} is:\n```json\n{json}\n```\n{{\"text\":\"more\"}}"));
        whole(&format!(r#"{{"note":1}} {{"response":{json}}}"#));
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
        for (answer, mistake) in [
            ("", "there is no answer in XML or JSON"),
            ("xyzzy", "there is no answer in XML or JSON"),
            ("<response>xyzzy</response>", "there is no answer in XML or JSON"),
            ("<response><thought>xyzzy</thought><text>xyzzy</text></response>", "missing: actions"),
            ("<thought> </thought><actions>,</actions>", "missing: thought, actions"),
            ("<response><thought>xyzzy</thought><actions>REPLY</actions><text>xyz", "<text> is not closed"),
            ("<response><thought>xyzzy</thought><actions>REPLY</actions>", "<response> is not closed"),
            ("<response><thought>xyzzy<actions>REPLY</actions></response>", "<thought> is not closed"),
            ("<response><actions>REPLY</response>", "<actions> is not closed"),
            ("<thought>a</thought><thought>b</thought><actions>c</actions>", "thought must be one text"),
            ("{\"thought\": \"xyzzy\",\n \"actions\": [", "not valid JSON at line 2 column 13"),
            (r#"{"thought": 1, "actions": "REPLY"}"#, "thought must be one text"),
            (r#"{"thought": "a", "actions": [{"a": 1}]}"#, "actions must be a list of names"),
            (r#"{"xyzzy": "a"}"#, "there is no answer in XML or JSON"),
        ] {
            let error = MessageAnswer::parse(answer).expect_err(answer);
            assert_eq!(error.to_string(), mistake, "{answer}");
        }
    }

    #[test]
    fn the_mode_follows_from_actions_providers_and_text() {
        use Mode::{Actions, Ignore, Simple};
        for (actions, providers, text, left, mode) in [
            ("REPLY", "", "a", "REPLY", Simple),
            ("reply", "", "a", "reply", Simple),
            ("REPLY", "", "", "REPLY", Actions),
            ("REPLY", "FAQ", "a", "REPLY", Actions),
            ("REPLY,FOLLOW_ROOM", "", "a", "REPLY+FOLLOW_ROOM", Actions),
            ("FOLLOW_ROOM", "", "a", "FOLLOW_ROOM", Actions),
            ("IGNORE", "", "", "IGNORE", Ignore),
            ("IGNORE", "", "a", "IGNORE", Ignore),
            ("REPLY,IGNORE", "", "a", "REPLY", Simple),
            ("REPLY,Ignore", "", "", "IGNORE", Ignore),
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
    fn what_nests_without_end_is_refused() {
        let deep = |open: &str, close: &str| open.repeat(100_000) + &close.repeat(100_000);
        for answer in [deep("{\"actions\":", "}"), deep("<text>", ""), deep("<actions>", "</actions>")] {
            assert!(MessageAnswer::parse(&answer).is_err());
        }
    }
}
