//! Asking the models of a service.

use std::sync::Arc;

use futures::StreamExt;
use memory_core::{Error, ErrorKind, Result};
use memory_model::{self as model, Completion, Delta, Model, Prompt, ask};
use tokio::time::timeout;

use super::answer::Mistake;
use super::{MessageService, Run};
use crate::state::{ComposeOptions, Turn};
use crate::template::Template;

impl MessageService {
    /// Asks the model that writes, about this turn.
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

    /// Asks a model over a state, until its answer can be read.
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

    /// What a model is asked: the instructions of the character, then what a template has become.
    pub(super) fn messages(&self, asked: String) -> Vec<model::ChatMessage> {
        let services = self.composer.services();
        let system = &services.character().system;
        let system = (!system.trim().is_empty()).then(|| model::ChatMessage::system(system));
        system.into_iter().chain([model::ChatMessage::user(asked)]).collect()
    }

    /// One answer of the model that writes, which is asked for plain text or for a form. Where somebody listens, its pieces are passed on
    /// as they come.
    pub(super) async fn complete(&self, run: &Run, prompt: &Prompt, is_plain: bool) -> Result<Completion> {
        let (limit, tap) = (self.limits.model, run.tap());
        let late = |_| {
            let message = format!("the model gave no answer within {} ms", limit.as_millis());
            Error::new(ErrorKind::Timeout, message).retryable()
        };
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
        let completion = completion.await.map_err(late)??;
        tap.used(completion.usage);
        Ok(completion)
    }
}
