//! Vectors: a string of its own beside the row of each record that has one.
//!
//! Rows are unaffected, so reading rows reads no vectors. The scripts of other writes delete a vector when its record
//! or texts change.

use memory_core::engine::{Embed, EmbedRecord};
use memory_core::{Outcome, RecordId, Result};
use redis::{Pipeline, Value};

use crate::connection::{Connections, RedisSession};
use crate::rows::{ROWS, Version};
use crate::statements::{Call, Lua, decoded};

/// Returns the vectors of these records; those without one are left out.
pub(crate) async fn vectors(on: &Connections, of: &[RecordId]) -> Result<Vec<(RecordId, Vec<u8>)>> {
    let mut read = Pipeline::with_capacity(of.len().div_ceil(ROWS));
    for some in of.chunks(ROWS) {
        read.cmd("MGET").arg(some.iter().map(|record| on.keys.vector(record)).collect::<Vec<_>>());
    }
    let found = on.read_as::<Vec<Vec<Option<Vec<u8>>>>>(&read).await?.into_iter().flatten();
    Ok(of.iter().zip(found).filter_map(|(record, vector)| Some((record.clone(), vector?))).collect())
}

impl RedisSession {
    /// Stores vectors by one script, each if its record is as it was read.
    pub(crate) async fn embed_each(&self, embeds: &[Embed<'_, Version>]) -> Result<Vec<bool>> {
        if embeds.is_empty() {
            return Ok(Vec::new());
        }
        let (keys, mut vectors) = (&self.on.keys, Vec::with_capacity(embeds.len()));
        let mut call = Call::new(Lua::Embed, keys).arg(embeds.len().to_string());
        for Embed { found, vector } in embeds {
            let of = found.id();
            let head = match found {
                EmbedRecord::Memory(found) => found.version.head,
                EmbedRecord::Document(found) => found.version.head,
            };
            call = call.key(keys.row_of(&of)).arg(head).arg(vector.as_slice());
            vectors.push(keys.vector(&of));
        }
        for vector in vectors {
            call = call.key(vector);
        }
        let answer = self.write(call.into_pipeline()).await?.pop().unwrap_or(Value::Nil);
        // The script may have written.
        let kept: Vec<bool> = decoded(answer).map_err(|error| error.with_outcome(Outcome::Unknown))?;
        if kept.contains(&true) {
            self.wrote();
        }
        Ok(kept)
    }
}
