//! What a model is asked in each step of the flow.

use crate::template::Template;

/// The providers of the question whether to answer.
pub const RESPOND_PROVIDERS: [&str; 5] = ["ANXIETY", "ENTITIES", "CHARACTER", "RECENT_MESSAGES", "ACTIONS"];
/// The providers of a reflection.
pub const REFLECTION_PROVIDERS: [&str; 5] = ["CHARACTER", "ENTITIES", "RELATIONSHIPS", "FACTS", "RECENT_MESSAGES"];
/// The providers of a post.
pub const POST_PROVIDERS: [&str; 3] = ["CHARACTER", "PROVIDERS", "TIME"];

/// The templates of the flow. Each can be replaced; the values are those of the composed state, and `{{providers}}` is its text.
///
/// ```
/// use memory_context::flow::Templates;
/// use memory_context::template::Template;
///
/// let mut templates = Templates::default();
/// templates.should_respond = Template::parse("{{providers}}\nIs {{agentName}} meant? <action>RESPOND or IGNORE</action>")?;
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Templates {
    /// Whether to answer, over [`RESPOND_PROVIDERS`]; read as [`RespondAnswer`](super::answer::RespondAnswer).
    pub should_respond: Template,
    /// What to answer, over the default providers; read as [`MessageAnswer`](super::answer::MessageAnswer).
    pub message_handler: Template,
    /// What was learned, over [`REFLECTION_PROVIDERS`]; read as [`ReflectionAnswer`](super::answer::ReflectionAnswer).
    pub reflection: Template,
    /// What to post, over [`POST_PROVIDERS`]; read as [`PostAnswer`](super::answer::PostAnswer).
    pub post_creation: Template,
}

impl Default for Templates {
    fn default() -> Self {
        // The texts are parts of this crate, and the tests read them.
        let built_in = |text| Template::parse(text).expect("a template of this crate");
        Self {
            should_respond: built_in(include_str!("templates/should_respond.txt")),
            message_handler: built_in(include_str!("templates/message_handler.txt")),
            reflection: built_in(include_str!("templates/reflection.txt")),
            post_creation: built_in(include_str!("templates/post_creation.txt")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use memory_core::{InMemory, MemoryProvider, Timestamp};

    use super::*;
    use crate::flow::answer::{MessageAnswer, Mode, PostAnswer, ReflectionAnswer, RespondAnswer};
    use crate::records::{AgentId, EntityId, MessageContent, NewMessage, Records, RoomId};
    use crate::state::{Character, ComposeOptions, Composer, Services, Turn};

    /// The prompt of a template for a message that says `Hello <b>`.
    async fn prompt(template: &Template, options: &ComposeOptions) -> String {
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
        let rendered = template.render(&state.values).expect("values are enough");
        assert!(rendered.missing.is_empty(), "{:?}", rendered.missing);
        rendered.text
    }

    /// Each default template shows the form of its answer, and that is what is read.
    #[tokio::test]
    async fn default_templates_ask_for_what_is_read() {
        let templates = Templates::default();
        let asked = prompt(&templates.should_respond, &ComposeOptions::only(RESPOND_PROVIDERS)).await;
        assert!(asked.contains("Eliza") && asked.contains("Hello <b>"), "{asked}");
        let answer = RespondAnswer::parse(&asked).expect("the form");
        assert!(!answer.reasoning.is_empty() && answer.action.contains("IGNORE"), "{}", answer.action);

        let asked = prompt(&templates.message_handler, &ComposeOptions::default()).await;
        assert!(asked.contains("Eliza") && asked.contains("Hello <b>"), "{asked}");
        let answer = MessageAnswer::parse(&asked).expect("the form");
        assert_eq!((answer.actions.join(",").as_str(), answer.mode()), ("REPLY", Mode::Simple));

        let asked = prompt(&templates.reflection, &ComposeOptions::only(REFLECTION_PROVIDERS)).await;
        assert!(asked.contains("Eliza") && asked.contains("Hello <b>"), "{asked}");
        let answer = ReflectionAnswer::parse(&asked).expect("the form");
        assert_eq!((answer.facts.len(), answer.relationships.len(), answer.new_facts().count()), (1, 1, 1));

        let asked = prompt(&templates.post_creation, &ComposeOptions::only(POST_PROVIDERS)).await;
        assert!(asked.contains("Eliza"), "{asked}");
        let answer = PostAnswer::parse(&asked).expect("the form");
        assert!(!answer.post.is_empty() && !answer.image_prompt.is_empty());
    }
}
