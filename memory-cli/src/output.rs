//! The output of commands: tables for people, JSON lines for programs.

use std::error::Error as _;
use std::fmt;
use std::io::{self, BufWriter, Stdout, Write};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use memory_core::{Document, ErrorKind, Memory, Timestamp, Unreadable};
use serde::Serialize;

/// Standard output, on which a command prints lines for people or JSON for programs.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
    out: BufWriter<Stdout>,
}

/// An error of standard output, such as a broken pipe.
#[derive(Debug)]
pub(crate) struct OutputFailed(io::Error);

/// How many characters of a payload a table shows.
const PREVIEW: usize = 80;

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, out: BufWriter::new(io::stdout()) }
    }

    /// Whether the output is JSON lines.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a line.
    pub(crate) fn line(&mut self, text: impl fmt::Display) -> Result<(), OutputFailed> {
        writeln!(self.out, "{text}").map_err(OutputFailed)
    }

    /// Prints a part of a line.
    pub(crate) fn part(&mut self, text: impl fmt::Display) -> Result<(), OutputFailed> {
        write!(self.out, "{text}").map_err(OutputFailed)
    }

    /// Prints one JSON value on a line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), OutputFailed> {
        serde_json::to_writer(&mut self.out, value).map_err(|error| OutputFailed(error.into()))?;
        self.line("")
    }

    /// Prints a JSON value with `--json`, otherwise the text.
    pub(crate) fn value(&mut self, value: &impl Serialize, text: impl fmt::Display) -> Result<(), OutputFailed> {
        if self.json { self.json(value) } else { self.line(text) }
    }

    /// Prints a page of memories.
    pub(crate) fn memories(&mut self, memories: &[Memory]) -> Result<(), OutputFailed> {
        if self.json {
            return memories.iter().try_for_each(|memory| self.json(memory));
        }
        let expire = memories.iter().any(|memory| memory.expires_at.is_some());
        let mut table = table(&with_expiry(expire, "expires", ["id", "created", "space", "status", "trigger"]));
        for memory in memories {
            let columns = [
                memory.id.to_string(),
                date(memory.created_at),
                memory.space_id.to_string(),
                memory.status.to_string(),
                preview(memory.trigger.as_str()),
            ];
            table.add_row(with_expiry(expire, memory.expires_at.map(date).unwrap_or_default(), columns));
        }
        self.table_or(&table, "no memories found")
    }

    /// Prints a page of documents.
    pub(crate) fn documents(&mut self, documents: &[Document]) -> Result<(), OutputFailed> {
        if self.json {
            return documents.iter().try_for_each(|document| self.json(document));
        }
        let expire = documents.iter().any(|document| document.expires_at.is_some());
        let mut table = table(&with_expiry(expire, "expires", ["id", "created", "space", "revision", "content"]));
        for document in documents {
            let columns = [
                printable(document.id.as_str()),
                date(document.created_at),
                document.space_id.to_string(),
                document.revision.to_string(),
                preview(document.content.as_str()),
            ];
            table.add_row(with_expiry(expire, document.expires_at.map(date).unwrap_or_default(), columns));
        }
        self.table_or(&table, "no documents found")
    }

    /// Prints all fields of a memory.
    pub(crate) fn memory(&mut self, memory: &Memory) -> Result<(), OutputFailed> {
        if self.json {
            return self.json(memory);
        }
        let mut rows = vec![
            ("id", memory.id.to_string()),
            ("space", memory.space_id.to_string()),
            ("created", date(memory.created_at)),
        ];
        rows.extend(memory.updated_at.map(|time| ("updated", date(time))));
        rows.extend(memory.expires_at.map(|time| ("expires", date(time))));
        rows.extend([("status", memory.status.to_string()), ("revision", memory.revision.to_string())]);
        rows.extend(memory.idempotency_key.as_ref().map(|key| ("key", key.to_string())));
        rows.extend([("metadata", memory.metadata.as_str().into()), ("trigger", memory.trigger.as_str().into())]);
        rows.extend(memory.context.as_ref().map(|context| ("context", context.as_str().into())));
        self.details(rows)
    }

    /// Prints all fields of a document.
    pub(crate) fn document(&mut self, document: &Document) -> Result<(), OutputFailed> {
        if self.json {
            return self.json(document);
        }
        let mut rows = vec![
            ("id", document.id.to_string()),
            ("collection", document.collection.to_string()),
            ("space", document.space_id.to_string()),
            ("created", date(document.created_at)),
        ];
        rows.extend(document.updated_at.map(|time| ("updated", date(time))));
        rows.extend(document.expires_at.map(|time| ("expires", date(time))));
        rows.extend([
            ("revision", document.revision.to_string()),
            ("metadata", document.metadata.as_str().into()),
            ("content", document.content.as_str().into()),
        ]);
        self.details(rows)
    }

    /// Prints names with their values.
    pub(crate) fn details(&mut self, rows: Vec<(&str, String)>) -> Result<(), OutputFailed> {
        let mut table = table(&[]);
        for (name, value) in rows {
            table.add_row([name.to_owned(), printable(&value)]);
        }
        self.line(table)
    }

    pub(crate) fn flush(&mut self) -> Result<(), OutputFailed> {
        self.out.flush().map_err(OutputFailed)
    }

    /// Prints a table, or a sentence if the table is empty.
    pub(crate) fn table_or(&mut self, table: &Table, nothing: &str) -> Result<(), OutputFailed> {
        if table.is_empty() { self.line(nothing) } else { self.line(table) }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl OutputFailed {
    pub(crate) fn new(error: io::Error) -> Self {
        Self(error)
    }

    pub(crate) fn kind(&self) -> io::ErrorKind {
        self.0.kind()
    }
}

impl fmt::Display for OutputFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "can't write to standard output: {}", self.0)
    }
}

impl std::error::Error for OutputFailed {}

/// Prints a line on standard error. A failure to write it is ignored.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Reports rows that can't be read (Q8). Returns whether there are any.
pub(crate) fn report_unreadable(what: &str, rows: &[Unreadable]) -> bool {
    for row in rows {
        note(&format!("error: the {what} {} can't be read: {}", printable(&row.id), row.reason));
    }
    !rows.is_empty()
}

/// Describes an error on one line: where, what, why, and what to do.
pub(crate) fn describe(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        let of_core = cause.downcast_ref::<memory_core::Error>();
        let text = of_core.map_or_else(|| cause.to_string(), |error| error.message().to_owned());
        // Some libraries repeat their cause in their own message.
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        if let Some(error) = of_core {
            // One cause is enough: deeper ones say the same in the codes of a driver.
            parts.extend(error.source().map(ToString::to_string));
            if let Some(advice) = advice(error) {
                return one_line(&format!("{}; {advice}", parts.join(": ")));
            }
            break;
        }
    }
    one_line(&parts.join(": "))
}

/// Returns what to do about a failure of an engine. Other errors say it themselves.
fn advice(error: &memory_core::Error) -> Option<&'static str> {
    Some(match error.kind() {
        ErrorKind::Timeout => "try again, or raise ?deadline_ms= in the URL",
        // Without a cause, the ledger itself is not ready yet.
        ErrorKind::Unavailable if error.source().is_some() => {
            "check the URL, the free space and, if it is a server, that it runs; then try again"
        }
        ErrorKind::Unauthorized => {
            "check the permissions of the file and its folder, or the user and the password of the server"
        }
        ErrorKind::Corrupt => "restore a backup, or name another database with --url",
        _ => return None,
    })
}

/// Replaces line breaks and control characters, so that the text is one line and can't control the terminal.
pub(crate) fn one_line(text: &str) -> String {
    printable(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Formats a time for people: in UTC, with milliseconds if they are not 0.
pub(crate) fn date(time: Timestamp) -> String {
    let format = if time.as_millis() % 1000 == 0 { "%Y-%m-%d %H:%M:%SZ" } else { "%Y-%m-%d %H:%M:%S%.3fZ" };
    match jiff::Timestamp::from_millisecond(time.as_millis()) {
        Ok(time) => time.strftime(format).to_string(),
        // Unreachable: jiff supports all years of the contract.
        Err(_) => time.to_string(),
    }
}

pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if !header.is_empty() {
        table.set_header(header);
        // Ids are for copying, so a narrow terminal wraps other columns.
        table.set_constraints([ColumnConstraint::ContentWidth]);
    }
    table
}

/// The columns of a record; with the time of expiry after that of creation if any record of the table expires.
fn with_expiry<T>(expire: bool, expiry: T, columns: [T; 5]) -> Vec<T> {
    let mut columns = Vec::from(columns);
    if expire {
        columns.insert(2, expiry);
    }
    columns
}

/// The beginning of a payload, for tables.
pub(crate) fn preview(text: &str) -> String {
    let mut characters = text.chars();
    let mut shown: String = characters.by_ref().take(PREVIEW).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    printable(&shown).replace('\n', " ")
}

/// Replaces control characters, except line breaks, by U+FFFD, so that payloads can't control the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.replace(|character: char| character.is_control() && character != '\n', "\u{FFFD}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_utc() {
        let date = |millis| date(Timestamp::from_millis(millis).expect("in range"));
        assert_eq!(date(0), "1970-01-01 00:00:00Z");
        assert_eq!(date(-1), "1969-12-31 23:59:59.999Z");
        assert_eq!(date(1_700_000_000_000), "2023-11-14 22:13:20Z");
        assert_eq!(date(8_640_000_000_000), "2243-10-17 00:00:00Z");
    }

    #[test]
    fn previews_are_short_and_tame() {
        assert_eq!(preview("a\u{1b}[31mb\nc"), "a\u{FFFD}[31mb c");
        assert_eq!(preview(&"é".repeat(100)).chars().count(), PREVIEW + 1);
    }

    #[test]
    fn an_error_is_one_line_that_says_what_to_do() {
        let error = memory_core::Error::invalid("no\nsuch file").with_source(io::Error::other("code 14"));
        assert_eq!(describe(&anyhow::Error::from(error).context("opening")), "opening: no such file: code 14");
        let error = memory_core::Error::new(ErrorKind::Unauthorized, "read-only").with_source(io::Error::other("8"));
        assert_eq!(
            describe(&error.into()),
            "read-only: 8; check the permissions of the file and its folder, or the user and the password of the server"
        );
    }
}
