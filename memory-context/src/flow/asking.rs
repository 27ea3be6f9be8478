//! Calls of a service's models.

use std::sync::Arc;

use futures::StreamExt;
use memory_core::{Error, ErrorKind, Result};
use memory_model::{self as model, Completion, Delta, Model, Prompt, ask};
use tokio::time::timeout;

use super::answer::Mistake;
use super::{MessageService, Run};
use crate::deadline::no_answer;
use crate::state::{ComposeOptions, Turn};
use crate::template::Template;

impl MessageService {
    /// Asks the large model with a template over the composed state of a turn; see [`ask`](Self::ask).
    pub(super) async fn ask_writer<T>(
        &self,
        run: &Run,
        template: &Template,
        turn: &Turn,
        options: &ComposeOptions,
        parse: impl Fn(&str) -> Result<T, Mistake>,
    ) -> Result<T> {
        self.ask(run, &self.large, template, turn, options, parse).await
    }

    /// Asks a model with a template over the composed state of a turn. An answer that can't be parsed is sent back with the reason, a few
    /// times at most.
    pub(super) async fn ask<T>(
        &self,
        run: &Run,
        model: &Arc<dyn Model>,
        template: &Template,
        turn: &Turn,
        options: &ComposeOptions,
        parse: impl Fn(&str) -> Result<T, Mistake>,
    ) -> Result<T> {
        let state = self.composer.compose_state(turn, options).await;
        let messages = self.messages(template.render(&state.values)?.text);
        let prompt = Prompt { messages, ..Prompt::default() };
        let asked = ask(model.as_ref(), prompt, self.limits.model, parse).await?;
        run.tap().used(asked.usage);
        Ok(asked.value)
    }

    /// Returns the messages of a prompt: the system message of the character, then the rendered template.
    pub(super) fn messages(&self, asked: String) -> Vec<model::ChatMessage> {
        let services = self.composer.services();
        let system = &services.character().system;
        let system = (!system.trim().is_empty()).then(|| model::ChatMessage::system(system));
        system.into_iter().chain([model::ChatMessage::user(asked)]).collect()
    }

    /// Calls the large model once, for plain text or for a form. If the caller of the run wants a stream, pieces are passed on as they are
    /// generated.
    pub(super) async fn complete(&self, run: &Run, prompt: &Prompt, is_plain: bool) -> Result<Completion> {
        let (limit, tap) = (self.limits.model, run.tap());
        let completion = timeout(limit, async {
            if !tap.is_streaming() {
                return self.large.complete(prompt).await;
            }
            tap.completion_begins(is_plain);
            let mut pieces = self.large.stream(prompt);
            while let Some(piece) = pieces.next().await {
                match piece? {
                    Delta::Text(text) => tap.piece(&text),
                    Delta::Done(completion) => return Ok(completion),
                }
            }
            Err(Error::new(ErrorKind::Unexpected, "the answer of the model has no end"))
        });
        let completion = completion.await.map_err(|_| no_answer(limit))??;
        tap.used(completion.usage);
        Ok(completion)
    }
}
