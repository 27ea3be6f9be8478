//! What a session writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;

use memory_core::engine::{Append, Appended, Atomicity, Found, Writer};
use memory_core::{Collection, Document, Memory, MemoryId, Outcome, Result, Status, TextIndex};
use redis::{Cmd, Pipeline, Value};

use crate::connection::{Connections, array, bytes, unexpected_answer};
use crate::read::RedisSession;
use crate::rows::{self, Version};
use crate::statements::{Call, Insert, Lua, is_full, score, words_of, words_of_document};

/// How many documents are put at once.
const AT_ONCE: usize = 64;

impl Writer for RedisSession {
    async fn append(&mut self, append: Append<'_>) -> Result<Vec<Appended>> {
        let (on, memories) = (&self.on, append.memories);
        let is_new = |memory: &&Memory| !append.is_repeated && memory.idempotency_key.is_none();
        // What is certainly new needs no script, which looks for what is there first.
        let (plain, scripts): (Vec<_>, Vec<_>) = match append.atomicity {
            Atomicity::All if !memories.iter().all(is_new) => (Vec::new(), vec![memories]),
            _ => {
                let others = memories.chunks(1).filter(|memory| !is_new(&memory[0]));
                (memories.iter().copied().filter(is_new).collect(), others.collect())
            }
        };
        let (with_words, waits) = (on.text_index == TextIndex::All, on.wait.is_some());
        let (mut commands, mut paths) = (Pipeline::new(), BTreeSet::new());
        if !plain.is_empty() {
            let insert = Insert::new(&on.keys, &plain, with_words);
            commands = insert.transaction(&on.keys);
            paths = insert.paths;
        }
        let first = commands.len();
        for memories in &scripts {
            let mut insert = Insert::new(&on.keys, memories, with_words);
            paths.append(&mut insert.paths);
            commands.add_command(insert.script(&on.keys, waits));
        }
        let answers = write_below(on, commands, &paths).await?;
        let mut owners = HashMap::new();
        for (memories, answer) in scripts.iter().zip(answers.into_iter().skip(first)) {
            // The script may have written.
            owners.extend(taken(memories, answer).map_err(|error| error.with_outcome(Outcome::Unknown))?);
        }
        let is_refused = append.atomicity == Atomicity::All && !owners.is_empty();
        let appended = memories.iter().map(|memory| match owners.get(&memory.id) {
            Some(owner) => Appended::Taken(*owner),
            None if is_refused => Appended::NotWritten,
            None => Appended::Written,
        });
        Ok(appended.collect())
    }

    async fn replace(&mut self, before: &Found<Memory, Version>, after: &Memory) -> Result<bool> {
        let (on, id) = (&self.on, after.id);
        loop {
            let (mut going, mut coming, mut words) = (Vec::new(), Vec::new(), String::new());
            if after.context != before.record.context {
                words = "-1".to_owned();
                if on.has_ledger_text.load(Ordering::Relaxed) {
                    let (old, new) = (words_of(&before.record), words_of(after));
                    going = old.difference(&new).map(|word| on.keys.word(word)).collect();
                    coming = new.difference(&old).map(|word| on.keys.word(word)).collect();
                    words = going.len().to_string();
                }
            }
            let call = Call::new(Lua::Update)
                .keys([on.keys.memory(id)])
                .keys([Status::Pending, Status::Running].map(|status| on.keys.open(status)))
                .keys([on.keys.indexed()])
                .keys(going)
                .keys(coming)
                .arg(before.version)
                .arg(rows::from_memory(after))
                .arg(score(after.created_at))
                .arg(*id.as_bytes())
                .number((after.status == Status::Pending).into())
                .number((after.status == Status::Running).into())
                .arg(words);
            match on.write(call.into_pipeline()).await?.first() {
                Some(Value::Int(2)) => on.has_ledger_text.store(true, Ordering::Relaxed),
                answer => return Ok(is_done(answer)),
            }
        }
    }

    async fn put(&mut self, before: Option<&Found<Document, Version>>, after: &Document) -> Result<bool> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(put(&self.on, before, after));
        Ok(is_done(self.on.write(pipeline).await?.first()))
    }

    async fn put_new(&mut self, documents: &[Document]) -> Result<Vec<bool>> {
        let (mut done, mut earlier) = (Vec::with_capacity(documents.len()), Outcome::NotDone);
        for some in documents.chunks(AT_ONCE) {
            let mut pipeline = Pipeline::with_capacity(some.len());
            for document in some {
                pipeline.add_command(put(&self.on, None, document));
            }
            let answers = self.on.write(pipeline).await.map_err(|error| error.after(earlier))?;
            done.extend(answers.iter().map(|answer| is_done(Some(answer))));
            earlier = Outcome::Unknown;
        }
        Ok(done)
    }

    async fn remove(&mut self, collection: &Collection, found: &[Found<Document, Version>]) -> Result<bool> {
        let keys = &self.on.keys;
        let mut words = BTreeMap::<_, Vec<Vec<u8>>>::new();
        for Found { record, .. } in found {
            for word in words_of_document(record) {
                words.entry(keys.document_word(collection, &word)).or_default().push(record.id.as_str().into());
            }
        }
        let mut call = Call::new(Lua::Remove)
            .keys([keys.collection(collection), keys.collections()])
            .keys(found.iter().map(|found| keys.document(collection, &found.record.id)))
            .arg(collection.as_str())
            .number(found.len() as i64);
        for Found { record, version } in found {
            call = call.arg(record.id.as_str()).arg(*version);
        }
        for (word, ids) in words {
            call = call.keys([word]).number(ids.len() as i64).args(ids);
        }
        Ok(is_done(self.on.write(call.into_pipeline()).await?.first()))
    }
}

/// Puts a document in the place of what was read, or where there was none.
fn put(on: &Connections, before: Option<&Found<Document, Version>>, after: &Document) -> Cmd {
    let Document { collection, id, created_at, .. } = after;
    let old = before.map(|before| words_of_document(&before.record)).unwrap_or_default();
    let new = words_of_document(after);
    let word = |word: &String| on.keys.document_word(collection, word);
    let going: Vec<_> = old.difference(&new).map(word).collect();
    let count = going.len() as i64;
    Call::new(Lua::Put)
        .keys([on.keys.document(collection, id), on.keys.collection(collection), on.keys.collections()])
        .keys(going)
        .keys(new.difference(&old).map(word))
        .arg(before.map_or(&[][..], |before| &before.version))
        .arg(rows::from_document(after))
        .arg(score(*created_at))
        .arg(id.as_str())
        .arg(collection.as_str())
        .number(count)
        .into_cmd()
}

fn is_done(answer: Option<&Value>) -> bool {
    answer == Some(&Value::Int(1))
}

/// Writes memories, and moves what is old below these paths into chunks where they are full then.
async fn write_below(on: &Connections, mut commands: Pipeline, paths: &BTreeSet<&str>) -> Result<Vec<Value>> {
    for path in paths {
        commands.cmd("ZCARD").arg(on.keys.path(path)).cmd("ZCARD").arg(on.keys.chunks(path));
    }
    let mut answers = on.write(commands).await?;
    let sizes = answers.split_off(answers.len().saturating_sub(2 * paths.len()));
    let is_full =
        |sizes: &[Value]| matches!(sizes, [Value::Int(steps), Value::Int(chunks)] if is_full(*steps, *chunks));
    let full = paths.iter().zip(sizes.chunks_exact(2)).filter(|(_, sizes)| is_full(sizes)).map(|(path, _)| *path);
    let full: Vec<_> = full.collect();
    if !full.is_empty() {
        let seal = Call::seal(&on.keys, full).into_pipeline();
        // Recalls find everything where it is, and when this fails, a later store below the path tries again.
        while on.write_unawaited(&seal).await.is_ok_and(|answers| answers == [Value::Int(1)]) {}
    }
    Ok(answers)
}

/// Of memories that a script was to append, those that it did not because their id or key is taken, with who has it.
fn taken(memories: &[&Memory], answer: Value) -> Result<Vec<(MemoryId, MemoryId)>> {
    let items = array(answer)?;
    let mut taken = Vec::with_capacity(items.len() / 2);
    let mut items = items.into_iter();
    while let (Some(Value::Int(place)), Some(owner)) = (items.next(), items.next()) {
        // Places of a script begin with 1.
        let memory = usize::try_from(place - 1).ok().and_then(|place| memories.get(place));
        taken.push((memory.ok_or_else(unexpected_answer)?.id, rows::memory_id(&bytes(owner)?)?));
    }
    Ok(taken)
}
