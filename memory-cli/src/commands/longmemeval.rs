//! The question sets of LongMemEval, as `eval` reads them.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::json;

/// A question of LongMemEval, and the sessions among which its answer lies.
#[derive(Deserialize)]
struct Entry {
    question_id: String,
    question_type: String,
    question: String,
    answer_session_ids: Vec<String>,
    haystack_session_ids: Vec<String>,
    haystack_dates: Vec<String>,
    haystack_sessions: Vec<Vec<Turn>>,
}

#[derive(Deserialize)]
struct Turn {
    role: String,
    content: String,
    #[serde(default)]
    has_answer: bool,
}

/// Writes `ID.jsonl` and `ID.qa.jsonl` into a folder for each question of a file of LongMemEval, one question at a time, and tells how
/// many there were. A question whose turns are not marked has all turns of its sessions as evidence.
pub(super) fn convert(file: &Path, folder: &Path) -> anyhow::Result<usize> {
    std::fs::create_dir_all(folder).with_context(|| format!("the folder {} can't be made", folder.display()))?;
    let read = File::open(file).with_context(|| format!("{} can't be read", file.display()))?;
    let mut entries = serde_json::Deserializer::from_reader(BufReader::new(read));
    let count = entries.deserialize_seq(Entries { folder });
    count.with_context(|| format!("{} is no list of LongMemEval's questions, or could not be written", file.display()))
}

/// Converts each entry as it is read, since a file may have gigabytes.
struct Entries<'f> {
    folder: &'f Path,
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of questions")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while let Some(entry) = entries.next_element::<Entry>()? {
            entry.write(self.folder).map_err(A::Error::custom)?;
            count += 1;
        }
        Ok(count)
    }
}

impl Entry {
    fn write(&self, folder: &Path) -> anyhow::Result<()> {
        // It becomes the name of a file and part of a space.
        let id: String = self.question_id.chars().map(|sign| if sign.is_alphanumeric() { sign } else { '_' }).collect();
        let create = |name: String| File::create(folder.join(name)).map(BufWriter::new);
        let mut memories = create(format!("{id}.jsonl"))?;
        let sessions = self.haystack_session_ids.iter().zip(&self.haystack_dates).zip(&self.haystack_sessions);
        let is_marked = self.haystack_sessions.iter().flatten().any(|turn| turn.has_answer);
        let mut evidence = Vec::new();
        for (number, ((session, date), turns)) in sessions.enumerate() {
            let begun = DateTime::strptime("%Y/%m/%d (%a) %H:%M", date)?.to_zoned(TimeZone::UTC)?;
            let millis = begun.timestamp().as_millisecond();
            for (turn, Turn { role, content, has_answer }) in turns.iter().enumerate() {
                let name = format!("{session}:{turn}");
                let memory = json!({
                    "spaceId": format!("longmemeval-{id}-{number}-{turn}"),
                    "trigger": { "speaker": role, "text": content },
                    // A turn takes a quarter of a minute, so that they keep their order.
                    "createdAt": millis + 15_000 * turn as i64,
                    "metadata": { "speaker": role, "diaId": name },
                });
                writeln!(memories, "{memory}")?;
                if *has_answer || !is_marked && self.answer_session_ids.contains(session) {
                    evidence.push(name);
                }
            }
        }
        memories.flush()?;
        let question = json!({ "question": self.question, "evidence": evidence, "category": self.question_type });
        let mut questions = create(format!("{id}.qa.jsonl"))?;
        writeln!(questions, "{question}")?;
        Ok(questions.flush()?)
    }
}
