//! What is shown of a conversation: text for people, JSON lines for programs.

use memory_context::flow::{End, Why};
use memory_context::records::Message;
use serde::Serialize;

use crate::output::{self, Output, OutputFailed};

/// Where a conversation is shown.
#[derive(Debug)]
pub(super) struct Shown<'a> {
    output: &'a mut Output,
    /// What the agent is called.
    name: String,
    has_failures: bool,
}

/// A line for programs.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Line<'a> {
    /// The agent said something.
    Answer { message: &'a Message },
    /// What became of a line of the input.
    End {
        line: u64,
        end: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    },
}

impl<'a> Shown<'a> {
    pub(super) fn new(output: &'a mut Output, name: String) -> Self {
        Self { output, name, has_failures: false }
    }

    /// Whether something was reported.
    pub(super) fn has_failures(&self) -> bool {
        self.has_failures
    }

    /// What the agent said.
    pub(super) fn answer(&mut self, message: &Message) -> Result<(), OutputFailed> {
        let text = output::printable(&format!("{}: {}", self.name, message.content.text));
        self.output.value(&Line::Answer { message }, text)?;
        self.output.flush()
    }

    /// What became of a line. People see the answer itself, and are told where there is none.
    pub(super) fn end(&mut self, line: u64, end: &End) -> Result<(), OutputFailed> {
        let late;
        let reason = match end {
            End::Completed | End::Superseded => None,
            End::Ignored(why) => Some(because(*why)),
            End::Failed { reason } | End::Left { reason } => Some(reason.as_str()),
            End::TimedOut { after } => {
                late = format!("there was no answer within {} s", after.as_secs());
                Some(late.as_str())
            }
        };
        if matches!(end, End::Failed { .. } | End::TimedOut { .. } | End::Left { .. }) {
            self.has_failures = true;
            output::note(&format!("error: {}", output::one_line(reason.unwrap_or_default())));
        }
        if self.output.is_json() {
            self.output.json(&Line::End { line, end: end.as_str(), reason })?;
            return self.output.flush();
        }
        if let End::Ignored(why) = end {
            output::note(&format!("{} says nothing: {}", output::printable(&self.name), because(*why)));
        }
        Ok(())
    }
}

fn because(why: Why) -> &'static str {
    match why {
        Why::Own => "it said that itself",
        Why::Known => "it heard that before",
        Why::Muted => "it is muted here",
        Why::Addressed | Why::ChannelType | Why::Source | Why::Model => "it does not want to answer",
    }
}
