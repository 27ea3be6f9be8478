use memory_context::flow::answer::{
    IGNORE, MAX_ACTIONS, MAX_ANSWER, MessageAnswer, Mode, PostAnswer, ReflectionAnswer, RespondAnswer,
};
use serde_json::json;

use crate::accepted;

/// A model's answer: parsing never panics, a parsed answer keeps its rules, and JSON and XML give the same answer.
pub fn answer(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(decision) = accepted(RespondAnswer::parse(&text)) {
        assert!(!decision.action.is_empty());
    }
    if let Some(post) = accepted(PostAnswer::parse(&text)) {
        assert!(!post.thought.is_empty() && !post.post.is_empty());
    }
    if let Some(reflection) = accepted(ReflectionAnswer::parse(&text)) {
        assert!(!reflection.thought.is_empty() && reflection.facts.iter().all(|fact| !fact.claim.is_empty()));
    }
    if let Ok(plain) = MessageAnswer::plain(&text) {
        assert!(text.contains(&plain.text) && plain.parameters.is_empty() && plain.memory.is_empty());
        assert_eq!(plain.mode(), if plain.text.is_empty() { Mode::Ignore } else { Mode::Simple });
    }
    let Some(read) = accepted(MessageAnswer::parse(&text)) else { return };
    assert!(!read.actions.is_empty() && read.actions.len() <= MAX_ACTIONS);
    let is_ignored = read.actions.iter().any(|action| action.eq_ignore_ascii_case(IGNORE));
    assert!(!is_ignored || read.mode() == Mode::Ignore, "a word that stands alone has company");
    if read.thought.is_empty() {
        assert!(read.mode() == Mode::Simple && text.contains(&read.text), "plain text is said as it is");
        return;
    }
    for written in [in_json(&read), in_xml(&read)] {
        if written.len() <= MAX_ANSWER {
            let again = MessageAnswer::parse(&written).unwrap_or_else(|mistake| panic!("{mistake}: {written}"));
            assert_eq!(form(&again), form(&read), "{written}");
        }
    }
}

/// The content of an answer, without the change of memory.
fn form(answer: &MessageAnswer) -> serde_json::Value {
    let MessageAnswer { thought, actions, parameters, providers, text, .. } = answer;
    json!({"thought": thought, "actions": actions, "parameters": parameters, "providers": providers, "text": text})
}

fn in_json(answer: &MessageAnswer) -> String {
    form(answer).to_string()
}

fn in_xml(answer: &MessageAnswer) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let each = |names: &[String], tag: &str| -> String {
        names.iter().map(|name| format!("<{tag}>{}</{tag}>", escaped(name))).collect()
    };
    let (actions, providers) = (each(&answer.actions, "action"), each(&answer.providers, "provider"));
    let parameters = escaped(&json!(answer.parameters).to_string());
    let (thought, text) = (escaped(&answer.thought), escaped(&answer.text));
    format!(
        "<response><thought>{thought}</thought><actions>{actions}</actions><parameters>{parameters}</parameters>\
         <providers>{providers}</providers><text>{text}</text></response>"
    )
}
