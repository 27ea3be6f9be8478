//! Shows a conversation: as text for people, as JSON lines for programs.

use memory_context::agent::{Answer, End, ToolResult};
use memory_context::flow::Why;
use memory_context::records::Message;
use memory_core::{Error, ErrorKind};
use serde::Serialize;

use crate::output::{self, Output, OutputFailed};

/// The output of a conversation.
#[derive(Debug)]
pub(super) struct Shown<'a> {
    output: &'a mut Output,
    /// The name of the agent.
    name: String,
    has_results: bool,
    /// Whether the last line holds a part of an answer.
    is_open: bool,
    has_failures: bool,
}

/// A line for programs.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Line<'a> {
    /// The agent called a tool.
    Tool { result: &'a ToolResult },
    /// The agent said something.
    Answer { message: &'a Message },
    /// The end of a line of the input.
    End {
        line: u64,
        end: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    },
}

impl<'a> Shown<'a> {
    pub(super) fn new(output: &'a mut Output, name: String) -> Self {
        Self { output, name, has_results: false, is_open: false, has_failures: false }
    }

    /// Also shows tool calls and their results.
    pub(super) fn with_results(mut self) -> Self {
        self.has_results = true;
        self
    }

    /// Whether a failure was reported.
    pub(super) fn has_failures(&self) -> bool {
        self.has_failures
    }

    /// Shows the next piece of an answer. Programs get only the whole answer.
    pub(super) fn text(&mut self, piece: &str) -> Result<(), OutputFailed> {
        if self.output.is_json() {
            return Ok(());
        }
        let text = output::printable(piece);
        if self.is_open {
            self.output.part(text)?;
        } else {
            self.output.part(output::printable(&format!("{}: {}", self.name, text.trim_start())))?;
        }
        self.is_open = true;
        self.output.flush()
    }

    /// Shows the result of a tool call.
    pub(super) fn result(&mut self, result: &ToolResult) -> Result<(), OutputFailed> {
        if !self.has_results {
            return Ok(());
        }
        if self.output.is_json() {
            self.output.json(&Line::Tool { result })?;
            return self.output.flush();
        }
        let ToolResult { tool, arguments, success, text, error, .. } = result;
        let (came, told) = if *success { ("", text) } else { ("failed: ", error) };
        let told = output::preview(told.as_deref().unwrap_or_default());
        self.note(&format!("[{} {}] {came}{told}", output::preview(tool), output::preview(&arguments.to_string())))
    }

    /// Shows a message that the agent said by itself.
    pub(super) fn said(&mut self, message: &Message) -> Result<(), OutputFailed> {
        let text = output::printable(&format!("{}: {}", self.name, message.content.text));
        self.output.value(&Line::Answer { message }, text)?;
        self.output.flush()
    }

    /// Shows the end of an answer whose pieces were shown.
    pub(super) fn answer(&mut self, line: u64, answer: &Answer) -> Result<(), OutputFailed> {
        if self.output.is_json() {
            answer.said.iter().try_for_each(|message| self.output.json(&Line::Answer { message }))?;
        }
        self.end(line, &answer.end)
    }

    /// Shows why there is no answer.
    pub(super) fn error(&mut self, line: u64, error: &Error) -> Result<(), OutputFailed> {
        let end = if error.kind() == ErrorKind::Timeout { "timedOut" } else { "failed" };
        self.over(line, end, Some(error.message()))?;
        self.report(error.message())
    }

    /// Shows the end of a line. People see the answer itself, and a note if there is none.
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
        self.over(line, end.as_str(), reason)?;
        let name = output::printable(&self.name);
        match end {
            End::Failed { .. } | End::TimedOut { .. } | End::Left { .. } => self.report(reason.unwrap_or_default()),
            End::Ignored(why) if !self.output.is_json() => {
                self.note(&format!("{name} says nothing: {}", because(*why)))
            }
            End::Superseded if !self.output.is_json() => self.note("The answer was given up."),
            End::Completed | End::Superseded | End::Ignored(_) => Ok(()),
        }
    }

    /// Reports a failure on standard error.
    pub(super) fn report(&mut self, reason: &str) -> Result<(), OutputFailed> {
        self.has_failures = true;
        self.note(&format!("error: {}", output::one_line(reason)))
    }

    fn over(&mut self, line: u64, end: &'static str, reason: Option<&str>) -> Result<(), OutputFailed> {
        if self.output.is_json() {
            self.output.json(&Line::End { line, end, reason })?;
        }
        self.close()?;
        self.output.flush()
    }

    /// Prints a line on standard error, which at a terminal is also where the answers are.
    fn note(&mut self, text: &str) -> Result<(), OutputFailed> {
        self.close()?;
        output::note(text);
        Ok(())
    }

    /// Ends a line that holds a part of an answer.
    fn close(&mut self) -> Result<(), OutputFailed> {
        if std::mem::take(&mut self.is_open) {
            self.output.line("")?;
            self.output.flush()?;
        }
        Ok(())
    }
}

fn because(why: Why) -> &'static str {
    match why {
        Why::Own => "it said that itself",
        Why::Known => "it heard that before",
        Why::Muted => "it is muted here",
        Why::Addressed | Why::ChannelType | Why::Source | Why::Followed | Why::Model => "it does not want to answer",
    }
}
