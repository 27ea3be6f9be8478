//! What the fuzz targets of this workspace call. It is no interface: it changes with the program.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use memory_core::plugin::Executor;
use memory_core::{MemoryId, MemoryProvider};

use crate::line::{self, Parsed, Record};
use crate::serve::{self, Access, Callers, ConsoleKey, Doctor, Door, Settings, Tokens};

/// Parses a line as an import does, and writes the record as an export does; or returns why the import refuses it.
/// A memory without an id gets one that is the same each time.
pub fn rewrite(line: &[u8]) -> Result<Vec<u8>, String> {
    let Parsed { record, vector } = line::parse(line)?;
    let mut out = Vec::new();
    let written = match &record {
        Record::New(memory) => line::write_memory(&mut out, &memory.clone().into_memory(MemoryId::from_bytes([0; 16]))),
        Record::Memory(memory) => line::write_memory(&mut out, memory),
        Record::Document(document) => line::write_document(&mut out, document),
        Record::Version(version) => line::write_version(&mut out, version),
        Record::Tombstone(tombstone, key) => line::write_tombstone(&mut out, tombstone, key),
        Record::VectorModel(model) => line::write_vector_model(&mut out, model),
    };
    let vector = vector.map_or(Ok(()), |vector| line::add_vector(&mut out, &vector));
    written.and(vector).map_err(|error| error.to_string())?;
    Ok(out)
}

/// The tools of a server over this provider.
pub fn tools(provider: &Arc<dyn MemoryProvider>) -> Vec<Arc<dyn Executor>> {
    serve::tools::tools(provider, None).into_iter().map(|tool| tool.executor).collect()
}

/// The routes of a server that accepts the tokens of a file with this text. Its console may change records.
pub fn router(provider: &Arc<dyn MemoryProvider>, tokens: &str) -> anyhow::Result<Router> {
    let door = Door::Tokens(Tokens::parse(tokens)?);
    let callers = Callers {
        key: ConsoleKey::of(&door),
        door,
        rest: Access::nothing(),
        mcp: Access::nothing(),
        hosts: Vec::new(),
        origins: Vec::new(),
    };
    let settings = Settings {
        callers,
        time: Duration::from_secs(5),
        heartbeat: Duration::from_secs(10),
        stall: Duration::from_secs(120),
        concurrency: 16,
        max_body: 1 << 20,
        console: true,
        console_write: true,
        sampling: Duration::from_secs(10),
        doctor: Doctor::of("sqlite:///dev/null/memory.db"),
        agent: None,
        embedding: None,
    };
    serve::router(provider, settings)
}
