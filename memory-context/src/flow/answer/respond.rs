//! The answer of a model that decides whether to respond.

use std::fmt;
use std::sync::LazyLock;

use super::Mistake;
use super::extract::extract;
use super::fields::Fields;
use super::shape::Shape;

/// The answer of a model that decides whether to respond to a message.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RespondAnswer {
    /// The model's reason; may be empty.
    pub reasoning: String,
    /// The decision: `RESPOND`, `IGNORE`, `STOP`, or the name of an action.
    pub action: String,
}

static SHAPE: LazyLock<Shape> = LazyLock::new(|| Shape::new(&["name", "reasoning", "action"], &[]));

impl RespondAnswer {
    /// Parses the text of a model. The action is required.
    pub fn parse(answer: &str) -> Result<Self, Mistake> {
        let values = extract(answer, &SHAPE)?;
        let mut fields = Fields::new(&values);
        let (reasoning, action) = (fields.text("reasoning")?, fields.required("action")?);
        fields.finish()?;
        Ok(Self { reasoning, action })
    }

    /// Whether to respond: not if the action is `IGNORE`, `NONE` or `STOP`, ignoring case.
    pub fn should_respond(&self) -> bool {
        !["IGNORE", "NONE", "STOP"].iter().any(|name| self.action.eq_ignore_ascii_case(name))
    }
}

impl fmt::Debug for RespondAnswer {
    /// Shows only the decision: payloads stay out of logs, and a model can write anything as an action.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RespondAnswer({})", if self.should_respond() { "respond" } else { "ignore" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_action_decides() {
        for (action, responds) in [
            ("RESPOND", true),
            ("REPLY", true),
            ("FOLLOW_ROOM", true),
            ("IGNORE", false),
            ("ignore", false),
            ("None", false),
            ("STOP", false),
        ] {
            let xml = format!("<response><name>Ana</name><reasoning>r</reasoning><action>{action}</action></response>");
            let json = format!(r#"{{"reasoning":"r","action":"{action}"}}"#);
            for answer in [xml, json] {
                let answer = RespondAnswer::parse(&answer).expect("whole");
                assert_eq!((answer.reasoning.as_str(), answer.should_respond()), ("r", responds), "{action}");
            }
        }
    }

    #[test]
    fn without_an_action_there_is_no_decision() {
        let missing = Mistake::Missing { fields: vec!["action".into()] };
        assert_eq!(RespondAnswer::parse("<response><reasoning>r</reasoning></response>"), Err(missing.clone()));
        assert_eq!(RespondAnswer::parse(r#"{"reasoning":"r","action":null}"#), Err(missing));
    }
}
