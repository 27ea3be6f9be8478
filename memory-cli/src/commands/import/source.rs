//! The sources of an import.

use std::io::BufRead;

use anyhow::{Context as _, anyhow};
use futures::StreamExt as _;
use maiar::Records;
use memory_core::Vector;

use crate::engine;
use crate::line::{self, Parsed, Record};
use crate::line_reader::{Line, LineReader, MAX_LINE};
use crate::usage::Usage;

/// A source of records, read one at a time.
pub(crate) enum Source<'s> {
    /// JSON lines, as an export writes them.
    Lines(LineReader<Box<dyn BufRead + 's>>),
    /// A database of MAIAR.
    Maiar {
        records: Records,
        /// The location of the database, for people.
        location: String,
        /// The number of records read so far.
        count: u64,
    },
}

/// One record of a source.
pub(super) struct Item {
    /// The number of its line, or of the record if the source has no lines.
    pub(super) number: u64,
    /// The bytes that it takes in the source, if known.
    pub(super) bytes: usize,
    pub(super) record: Record,
    /// The vector, if the source has one.
    pub(super) vector: Option<Vector>,
}

impl<'s> Source<'s> {
    pub(crate) fn lines(reader: impl BufRead + 's) -> Self {
        Self::Lines(LineReader::new(Box::new(reader)))
    }

    /// Opens the database of MAIAR that a URL names.
    pub(super) fn maiar(url: &str) -> anyhow::Result<Self> {
        let refused = |error: memory_core::Error| Usage(format!("--from maiar: {}; see --help", error.message()));
        let records = maiar::open(url).map_err(refused)?;
        Ok(Self::Maiar { records, location: engine::parse(url)?.location(), count: 0 })
    }

    /// Returns the next record; `None` at the end.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Item>> {
        match self {
            Self::Lines(lines) => {
                let Some((number, line)) = lines.next().context("the input can't be read")? else { return Ok(None) };
                let (bytes, parsed) = match line {
                    Line::Text(text) => (text.len() + 1, line::parse(text)),
                    Line::TooLong => (0, Err(format!("longer than {MAX_LINE} bytes"))),
                };
                let Parsed { record, vector } = parsed.map_err(|reason| anyhow!("line {number}: {reason}"))?;
                Ok(Some(Item { number, bytes, record, vector }))
            }
            Self::Maiar { records, location, count } => {
                let Some(record) = records.next().await else { return Ok(None) };
                let record = Record::from(record.with_context(|| location.clone())?);
                *count += 1;
                Ok(Some(Item { number: *count, bytes: record.size(), record, vector: None }))
            }
        }
    }
}
