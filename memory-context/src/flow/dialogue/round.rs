//! Parses a model's answer of one round.

use memory_core::{Error, ErrorKind, Result};
use memory_model::{Completion, Finish};

use super::{Calls, Dialogue, MAX_CALLS, Refused, Said};
use crate::flow::answer::{IGNORE, MessageAnswer, Mistake, REPLY, is, is_without_text};
use crate::state::cut;
use crate::tool::{MAX_ARGUMENTS, ToolAlias};

/// The most bytes of an invalid answer that are sent back.
const MAX_RETURNED: usize = 64 << 10;

/// An answer that the endpoint cut short: what the user and the model are told of it.
#[derive(Clone, Copy)]
struct CutOff {
    /// The note after a cut text.
    mark: &'static str,
    /// The reason that the model is told if the cut answer is invalid.
    told: &'static str,
}

impl CutOff {
    const BY_LIMIT: Self = Self {
        mark: "\n[cut off: the model has come to its limit of tokens]",
        told: "the limit of tokens cut it short",
    };
    const BY_FILTER: Self =
        Self { mark: "\n[cut off: the endpoint has filtered the answer]", told: "a filter cut it short" };

    fn of(finish: Finish) -> Option<Self> {
        match finish {
            Finish::Length => Some(Self::BY_LIMIT),
            Finish::Filtered => Some(Self::BY_FILTER),
            _ => None,
        }
    }
}

impl Refused {
    fn new(mistake: impl Into<String>, written: &str) -> Self {
        Self { mistake: mistake.into(), written: cut(written, MAX_RETURNED).into_owned() }
    }
}

impl Dialogue<'_> {
    /// Parses a completion. The inner error is an invalid answer, after which the model is asked again; the outer one ends the dialogue.
    pub(super) fn read(&self, completion: Completion, is_last: bool) -> Result<std::result::Result<Said, Refused>> {
        let cut_off = CutOff::of(completion.finish);
        if !completion.tool_calls.is_empty() {
            if !is_last {
                // The last call may be incomplete, so none is made.
                if let Some(cut_off) = cut_off {
                    return Ok(Err(Refused::new(cut_off.told, &completion.text)));
                }
                return Ok(Ok(Said::Calls(self.calls_of(completion))));
            }
            if completion.text.trim().is_empty() {
                return Err(Error::new(
                    ErrorKind::LimitExceeded,
                    "the model called tools again and again, and did not answer",
                ));
            }
        }
        let text = completion.text;
        if is_without_text(&text) && self.has_said && cut_off.is_none() {
            return Ok(Ok(Said::Answer(MessageAnswer::ignored())));
        }
        let read = self.answer_in(&text).and_then(|answer| if is_last { without_tools(answer) } else { Ok(answer) });
        Ok(match read {
            Ok(mut answer) => {
                if let Some(cut_off) = cut_off.filter(|_| answer.is_plain()) {
                    answer.text.push_str(cut_off.mark);
                }
                Ok(Said::Answer(self.with_known_providers(answer)))
            }
            Err(mistake) => {
                let why = cut_off.map(|cut_off| format!(" ({})", cut_off.told)).unwrap_or_default();
                Err(Refused::new(format!("{mistake}{why}"), &text))
            }
        })
    }

    /// Parses the text of a model, as plain text or as a form, as it was asked for.
    pub(super) fn answer_in(&self, text: &str) -> std::result::Result<MessageAnswer, Mistake> {
        if self.is_plain {
            MessageAnswer::plain(text)
        } else {
            MessageAnswer::parse_meant(text, |name| self.word(name))
        }
    }

    /// Returns the calls of a completion that are within the limit. Arguments over the limit are cut to slightly more than it, so that they
    /// are still refused when a later process reads them from the journal.
    fn calls_of(&self, completion: Completion) -> Calls {
        let Completion { text, tool_calls: mut calls, .. } = completion;
        let left = MAX_CALLS - self.calls;
        let left_out = calls.len().saturating_sub(left);
        calls.truncate(left);
        calls.iter_mut().for_each(|call| call.name = self.meant(&call.name));
        for call in calls.iter_mut().filter(|call| call.arguments.len() > MAX_ARGUMENTS) {
            call.arguments.truncate(call.arguments.ceil_char_boundary(MAX_ARGUMENTS + 1));
        }
        Calls { said: self.answer_in(&text).ok(), text: String::new(), calls, left_out }
    }

    /// Resolves an alias to the tool's own name.
    fn meant(&self, name: &str) -> String {
        ToolAlias::meant(self.services.aliases(), name)
    }

    /// Resolves an alias of `REPLY` or `IGNORE`. Other names stay as the model wrote them, since the parameters are under the same names.
    fn word(&self, name: &str) -> String {
        let meant = self.meant(name);
        if is(&meant, REPLY) || is(&meant, IGNORE) { meant } else { name.to_owned() }
    }

    /// Keeps only the providers that the model may name: existing ones that are not private.
    fn with_known_providers(&self, mut answer: MessageAnswer) -> MessageAnswer {
        let offered = self.services.providers().iter().map(|provider| provider.info()).filter(|info| !info.private);
        let is_named = |name: &str| answer.providers.iter().any(|named| named.eq_ignore_ascii_case(name));
        answer.providers = offered.filter(|info| is_named(&info.name)).map(|info| info.name.to_string()).collect();
        answer
    }
}

/// Reduces an answer of the last round, in which no tools can be called, to `REPLY` or `IGNORE`.
fn without_tools(mut answer: MessageAnswer) -> Result<MessageAnswer, Mistake> {
    answer.providers.clear();
    answer.actions.retain(|name| is(name, REPLY) || is(name, IGNORE));
    answer.actions.truncate(1);
    if answer.actions.is_empty() && !answer.text.is_empty() {
        answer.actions.push(REPLY.to_owned());
    }
    match answer.actions.is_empty() {
        true => Err(Mistake::Invalid { field: "actions".to_owned(), expected: "REPLY alone" }),
        false => Ok(answer),
    }
}
