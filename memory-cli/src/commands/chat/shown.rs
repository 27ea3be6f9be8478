//! What is shown of a conversation: text for people, JSON lines for programs.

use memory_context::agent::{Answer, End, ToolResult};
use memory_context::flow::Why;
use memory_context::records::Message;
use memory_core::{Error, ErrorKind};
use serde::Serialize;

use crate::output::{self, Output, OutputFailed};

/// Where a conversation is shown.
#[derive(Debug)]
pub(super) struct Shown<'a> {
    output: &'a mut Output,
    /// What the agent is called.
    name: String,
    has_results: bool,
    /// Whether a part of an answer stands on the last line.
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
        Self { output, name, has_results: false, is_open: false, has_failures: false }
    }

    /// Also shows which tools are called, and what comes of that.
    pub(super) fn with_results(mut self) -> Self {
        self.has_results = true;
        self
    }

    /// Whether something was reported.
    pub(super) fn has_failures(&self) -> bool {
        self.has_failures
    }

    /// The next piece of an answer. Programs get it as a whole.
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

    /// What came of a call of a tool.
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

    /// What the agent said by itself.
    pub(super) fn said(&mut self, message: &Message) -> Result<(), OutputFailed> {
        let text = output::printable(&format!("{}: {}", self.name, message.content.text));
        self.output.value(&Line::Answer { message }, text)?;
        self.output.flush()
    }

    /// The end of an answer, whose pieces were shown.
    pub(super) fn answer(&mut self, line: u64, answer: &Answer) -> Result<(), OutputFailed> {
        if self.output.is_json() {
            answer.said.iter().try_for_each(|message| self.output.json(&Line::Answer { message }))?;
        }
        self.end(line, &answer.end)
    }

    /// Why there is no answer.
    pub(super) fn error(&mut self, line: u64, error: &Error) -> Result<(), OutputFailed> {
        let end = if error.kind() == ErrorKind::Timeout { "timedOut" } else { "failed" };
        self.over(line, end, Some(error.message()))?;
        self.report(error.message())
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

    /// A failure, on standard error.
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

    /// A line on standard error, which at a terminal is the place of the answers too.
    fn note(&mut self, text: &str) -> Result<(), OutputFailed> {
        self.close()?;
        output::note(text);
        Ok(())
    }

    /// Ends the line on which a part of an answer stands.
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
