//! The providers for each prompt of the flow.

/// The providers for the question whether to answer, beside the default ones.
pub const RESPOND_PROVIDERS: [&str; 5] = ["ANXIETY", "ENTITIES", "CHARACTER", "RECENT_MESSAGES", "ACTIONS"];
/// The providers for a reflection, beside the default ones.
pub const REFLECTION_PROVIDERS: [&str; 6] =
    ["CHARACTER", "ENTITIES", "RELATIONSHIPS", "FACTS", "RECENT_MESSAGES", "REFLECTIONS"];
/// The providers for a post.
pub const POST_PROVIDERS: [&str; 3] = ["CHARACTER", "PROVIDERS", "TIME"];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use memory_core::{InMemory, MemoryProvider, Timestamp};

    use super::*;
    use crate::flow::answer::{IGNORE, MessageAnswer, Mode, PostAnswer, ReflectionAnswer, RespondAnswer};
    use crate::flow::dialogue::CALLS_TOOLS;
    use crate::records::{AgentId, EntityId, MessageContent, NewMessage, Records, RoomId};
    use crate::state::{Character, ComposeOptions, Composer, Services, Turn};
    use crate::template::{Template, Templates};

    /// The prompt of a template for a message that says `Hello <b>`.
    async fn prompt(template: &Template, options: &ComposeOptions, calls_tools: bool) -> String {
        let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
        provider.init().await.expect("ready");
        let records = Records::new(provider, AgentId::parse("agent").expect("valid"));
        let (room, author) = (RoomId::parse("r").expect("valid"), EntityId::parse("ana").expect("valid"));
        let new = NewMessage::new(MessageContent::new(room, author, "Hello <b>"), Timestamp::MIN);
        let message = records.messages().add(new).await.expect("stored");
        let services = Services::new(records, Character::named("Eliza"));
        let composer = Composer::builder(services).built_in().build().expect("names differ");
        let state = composer.compose_state(&Turn::new(message), options).await;
        assert!(state.unknown.is_empty(), "{:?}", state.unknown);
        let mut values = state.values.clone();
        values.insert(CALLS_TOOLS.to_owned(), calls_tools.into());
        let rendered = template.render(&values).expect("values are enough");
        assert!(rendered.missing.is_empty(), "{:?}", rendered.missing);
        rendered.text
    }

    /// Each default template shows the form of its answer, and that is what is read.
    #[tokio::test]
    async fn default_templates_ask_for_what_is_read() {
        let templates = Templates::default();
        let asked = prompt(&templates.should_respond, &ComposeOptions::only(RESPOND_PROVIDERS), false).await;
        assert!(asked.contains("Eliza") && asked.contains("Hello <b>"), "{asked}");
        let answer = RespondAnswer::parse(&asked).expect("the form");
        assert!(!answer.reasoning.is_empty() && answer.action.contains("IGNORE"), "{}", answer.action);

        let asked = prompt(&templates.message_handler, &ComposeOptions::default(), false).await;
        assert!(asked.contains("Eliza") && asked.contains("Hello <b>"), "{asked}");
        let answer = MessageAnswer::parse(&asked).expect("the form");
        assert_eq!((answer.actions.join(",").as_str(), answer.mode()), ("REPLY", Mode::Simple));

        // A model that calls tools is shown no form.
        let asked = prompt(&templates.message_handler, &ComposeOptions::default(), true).await;
        assert!(asked.contains("Eliza") && asked.contains("Hello <b>") && asked.contains(IGNORE), "{asked}");
        assert!(MessageAnswer::parse(&asked).expect("plain text").is_plain());

        let asked = prompt(&templates.reflection, &ComposeOptions::only(REFLECTION_PROVIDERS), false).await;
        assert!(asked.contains("Eliza") && asked.contains("Hello <b>"), "{asked}");
        let answer = ReflectionAnswer::parse(&asked).expect("the form");
        assert_eq!((answer.facts.len(), answer.relationships.len(), answer.new_facts().count()), (1, 1, 1));

        let asked = prompt(&templates.post_creation, &ComposeOptions::only(POST_PROVIDERS), false).await;
        assert!(asked.contains("Eliza"), "{asked}");
        let answer = PostAnswer::parse(&asked).expect("the form");
        assert!(!answer.post.is_empty() && !answer.image_prompt.is_empty());
    }
}
