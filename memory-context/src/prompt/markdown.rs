//! Prompt memory in Markdown files.

use std::fs::{self, File};
use std::io::{ErrorKind as IoErrorKind, Write};
use std::path::{Path, PathBuf};
use std::{io, iter};

use async_trait::async_trait;
use memory_core::{DocumentId, Error, ErrorKind, IdempotencyKey, Outcome, Result};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::key::Key;
use super::memory::digest;
use super::render::render;
use super::update::{MAX_UPDATES, trim};
use super::{
    Flags, MemoryContext, MemoryLoadContext, MemoryStore, MemoryUpdate, PromptConfig, PromptSource, SyncReport,
    UpdateReport,
};

/// Prompt memory in a folder of Markdown files, one per store, which people can read and edit. Several processes may share the folder; it
/// must be on a local disk.
///
/// A file begins with a comment that holds the key and the batches that were applied last. A file without it is read as plain text.
#[derive(Debug, Clone)]
pub struct MarkdownMemory {
    folder: PathBuf,
}

/// The first line of a file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Header {
    /// The parts of the key, for people.
    of: String,
    /// The keys of the last batches, the newest last, each with the digest of its updates.
    batches: Vec<(String, String)>,
}

const BEGIN: &str = "<!-- ";
const END: &str = " -->";
/// How many batches are remembered.
const BATCHES: usize = 100;
/// The largest file that is read, in bytes. A store with its batches is smaller.
const MAX_FILE: u64 = 1 << 20;

impl MarkdownMemory {
    /// Makes a prompt memory in this folder, which is created with the first write.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    fn path(&self, id: &DocumentId) -> PathBuf {
        self.folder.join(format!("{id}.md"))
    }

    /// Reads a store: its own file, or the file for all agents if the agent has none.
    fn read(&self, key: &Key) -> Result<(Header, String)> {
        for id in [&key.id].into_iter().chain(&key.of_all) {
            if let Some(found) = read(&self.path(id))? {
                return Ok(found);
            }
        }
        Ok(Default::default())
    }

    /// Applies the updates of each store, after checking those of both stores.
    fn apply(&self, context: &MemoryLoadContext, batch: &str, updates: &[MemoryUpdate]) -> Result<SyncReport> {
        fs::create_dir_all(&self.folder).map_err(|error| failed(&error))?;
        let lock = File::create(self.folder.join(".lock")).map_err(|error| failed(&error))?;
        // Other processes wait here until `lock` is dropped at the end of this call.
        lock.lock().map_err(|error| failed(&error))?;
        let mut reports: Vec<Option<UpdateReport>> = iter::repeat_with(|| None).take(updates.len()).collect();
        let mut writes = Vec::new();
        for store in [MemoryStore::User, MemoryStore::Memory] {
            let of_store: Vec<_> = updates.iter().enumerate().filter(|(_, update)| update.store == store).collect();
            if of_store.is_empty() {
                continue;
            }
            let key = Key::of(context, store)?;
            let path = self.path(&key.id);
            let (mut header, before) = self.read(&key)?;
            let digest = digest(&of_store.iter().map(|(_, update)| *update).collect::<Vec<_>>())?;
            let known = header.batches.iter().find(|(known, _)| known == batch);
            let repeated = known.is_some();
            if known.is_some_and(|(_, known)| *known != digest) {
                return Err(Error::conflict("other updates were applied under this batch key"));
            }
            let mut text = before.clone();
            for (at, update) in of_store {
                let (next, matched_lines) = if repeated { (text.clone(), 0) } else { update.apply(&text) };
                let (changed, flags) = (next != text, Flags::of(&update.content));
                reports[at] = Some(UpdateReport { store, matched_lines, changed, repeated, revision: None, flags });
                text = next;
            }
            let max = PromptConfig::default().max_store_bytes;
            if text.len() > max && text.len() > before.len() {
                let size = text.len();
                return Err(Error::too_large(format!("the store would have {size} bytes; at most {max} are allowed")));
            }
            if text != before {
                header.of = key.metadata.as_str().to_owned();
                header.batches.push((batch.to_owned(), digest));
                let old = header.batches.len().saturating_sub(BATCHES);
                header.batches.drain(..old);
                writes.push((path, header, text));
            }
        }
        for (at, (path, header, text)) in writes.into_iter().enumerate() {
            let written = write(&path, &header, &text);
            // If the second write fails, the first store is written already, so the outcome of the call is unknown.
            written.map_err(|error| if at > 0 { error.with_outcome(Outcome::Unknown) } else { error })?;
        }
        Ok(SyncReport { updates: reports.into_iter().flatten().collect() })
    }
}

#[async_trait]
impl PromptSource for MarkdownMemory {
    async fn prefetch(&self, context: &MemoryLoadContext) -> Result<Option<MemoryContext>> {
        let stores = [MemoryStore::User, MemoryStore::Memory];
        let [user, memory] = stores.map(|store| Key::of(context, store));
        let (user, memory, folder) = (user?, memory?, self.clone());
        let (user, memory) = aside(move || Ok((folder.read(&user)?.1, folder.read(&memory)?.1))).await?;
        let rendered = render(trim(&user), trim(&memory), None, PromptConfig::default().budget);
        Ok(rendered.map(|rendered| {
            let mut known = MemoryContext::new(rendered.content);
            known.source = "markdown";
            known.truncated = rendered.dropped_bytes > 0;
            known.dropped_bytes = rendered.dropped_bytes;
            known.flags = Flags::of(&user);
            known.flags += Flags::of(&memory);
            known
        }))
    }

    async fn sync(
        &self,
        context: &MemoryLoadContext,
        batch: &IdempotencyKey,
        updates: &[MemoryUpdate],
    ) -> Result<SyncReport> {
        if updates.is_empty() {
            return Ok(SyncReport::default());
        }
        if updates.len() > MAX_UPDATES {
            let count = updates.len();
            return Err(Error::too_large(format!("{count} updates; at most {MAX_UPDATES} go in one sync")));
        }
        updates.iter().try_for_each(|update| update.check(PromptConfig::default().max_entry_bytes))?;
        let (memory, context, batch) = (self.clone(), context.clone(), batch.as_str().to_owned());
        let updates = updates.to_vec();
        aside(move || memory.apply(&context, &batch, &updates)).await
    }
}

/// Runs blocking work on tokio's thread pool for blocking work.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let panicked = |_| Error::new(ErrorKind::Unexpected, "the work on a file panicked");
    spawn_blocking(work).await.map_err(panicked)?
}

/// Reads a file; `None` if there is none.
fn read(path: &Path) -> Result<Option<(Header, String)>> {
    let size = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    if size > MAX_FILE {
        return Err(Error::too_large(format!("a file of {size} bytes; at most {MAX_FILE} are read")));
    }
    let whole = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let (first, rest) = whole.split_once('\n').unwrap_or((&whole, ""));
    let header = first.strip_prefix(BEGIN).and_then(|line| line.trim_end().strip_suffix(END));
    Ok(Some(match header.and_then(|header| serde_json::from_str(header).ok()) {
        Some(header) => (header, trim(rest).to_owned()),
        None => (Header::default(), trim(&whole).to_owned()),
    }))
}

/// Replaces a file atomically: a reader sees either the old file or the new one.
fn write(path: &Path, header: &Header, text: &str) -> Result<()> {
    let json = serde_json::to_string(header).map_err(|error| Error::invalid("no JSON form").with_source(error))?;
    // `>` is escaped, so that nothing in the JSON ends the comment.
    let header = json.replace('>', "\\u003e");
    let new = path.with_extension("new");
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(format!("{BEGIN}{header}{END}\n{text}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    });
    written.map_err(|error| failed(&error))
}

/// The error of a file operation, without the path, which may hold private names.
fn failed(error: &io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("a file of the prompt memory can't be used: {}", error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(key: &str) -> IdempotencyKey {
        IdempotencyKey::parse(key).expect("valid")
    }

    fn context() -> MemoryLoadContext {
        MemoryLoadContext::new("s1", "telegram:42", "telegram").with_user("ana --> x")
    }

    fn updates() -> [MemoryUpdate; 2] {
        [MemoryUpdate::add(MemoryStore::Memory, "Friday"), MemoryUpdate::add(MemoryStore::User, "Ana likes tea")]
    }

    async fn content(memory: &MarkdownMemory) -> Option<String> {
        memory.prefetch(&context()).await.expect("read").map(|known| known.content)
    }

    #[tokio::test]
    async fn what_is_kept_comes_back_and_nothing_doubles() {
        let folder = tempfile::tempdir().expect("a folder");
        let memory = MarkdownMemory::new(folder.path().join("memory"));
        assert_eq!(content(&memory).await, None);
        let report = memory.sync(&context(), &batch("1"), &updates()).await.expect("kept");
        assert_eq!(report.updates.iter().map(|update| update.store).collect::<Vec<_>>(), updates().map(|it| it.store));
        let again = MarkdownMemory::new(folder.path().join("memory"));
        let report = again.sync(&context(), &batch("1"), &updates()).await.expect("known");
        assert!(report.updates.iter().all(|update| update.repeated && !update.changed));
        let both = "## About You\n\nAna likes tea\n\n## Memory\n\nFriday";
        assert_eq!(content(&again).await.as_deref(), Some(both));
        let other = [MemoryUpdate::add(MemoryStore::User, "Bo")];
        let refused = again.sync(&context(), &batch("1"), &other).await.expect_err("other updates");
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        let gone = [MemoryUpdate::remove(MemoryStore::Memory, "Fri"), MemoryUpdate::remove(MemoryStore::User, "tea")];
        again.sync(&context(), &batch("2"), &gone).await.expect("removed");
        assert_eq!(content(&memory).await, None);
    }

    #[tokio::test]
    async fn a_human_may_edit_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let memory = MarkdownMemory::new(folder.path());
        let path = memory.path(&Key::of(&context(), MemoryStore::Memory).expect("valid").id);
        fs::write(&path, "By hand\n").expect("written");
        assert_eq!(content(&memory).await.as_deref(), Some("## Memory\n\nBy hand"));
        memory.sync(&context(), &batch("1"), &updates()[..1]).await.expect("kept");
        let whole = fs::read_to_string(&path).expect("read");
        assert!(whole.starts_with(BEGIN) && whole.ends_with("By hand\n\nFriday\n"), "{whole}");
        assert_eq!(whole.matches("-->").count(), 1);
    }

    #[tokio::test]
    async fn an_agent_begins_with_the_file_of_all_agents() {
        let folder = tempfile::tempdir().expect("a folder");
        let memory = MarkdownMemory::new(folder.path());
        memory.sync(&context(), &batch("1"), &updates()[1..]).await.expect("kept");
        let of = async |agent| memory.prefetch(&context().with_agent(agent)).await.expect("read").map(|it| it.content);
        assert_eq!(of("ada").await.as_deref(), Some("## About You\n\nAna likes tea"));
        let of_ada = context().with_agent("ada");
        let known = memory.sync(&of_ada, &batch("1"), &updates()[1..]).await.expect("known");
        assert!(known.updates[0].repeated, "{known:?}");
        memory.sync(&of_ada, &batch("2"), &[MemoryUpdate::replace(MemoryStore::User, "")]).await.expect("kept");
        assert_eq!(of("ada").await, None);
        assert_eq!(of("bob").await.as_deref(), Some("## About You\n\nAna likes tea"));
    }

    #[tokio::test]
    async fn what_is_too_large_for_one_store_is_kept_in_neither() {
        let folder = tempfile::tempdir().expect("a folder");
        let memory = MarkdownMemory::new(folder.path());
        let long = "x".repeat(30 << 10);
        let many = [1, 2, 3].map(|_| MemoryUpdate::add(MemoryStore::Memory, long.as_str()));
        let all: Vec<_> = updates().into_iter().chain(many).collect();
        assert_eq!(memory.sync(&context(), &batch("1"), &all).await.expect_err("too much").kind(), ErrorKind::TooLarge);
        assert_eq!(content(&memory).await, None);
    }

    #[tokio::test]
    async fn racing_writers_lose_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let writers = (0..8).map(|number| {
            let memory = MarkdownMemory::new(folder.path());
            let update = MemoryUpdate::add(MemoryStore::Memory, format!("line {number}"));
            async move { memory.sync(&context(), &batch(&number.to_string()), &[update]).await }
        });
        futures::future::try_join_all(writers).await.expect("kept");
        let known = content(&MarkdownMemory::new(folder.path())).await.expect("lines");
        assert_eq!(known.lines().filter(|line| line.starts_with("line ")).count(), 8);
    }
}
