//! The reported outcomes of writes that the server refuses or that are cut off.

use super::*;

pub(crate) async fn what_is_passing_is_tried_again() -> CaseResult {
    let server = LocalMongo::start_with(1, &["--setParameter", "enableTestCommands=1"])?;
    // A server that only pretends not to be the primary does not announce that it is one again, so it is polled.
    let provider = open(config(&format!("{}&heartbeatFrequencyMS=500", server.url()))).await?;
    let admin = admin(&server.url()).await?;
    let mut stored = vec![provider.store(event("a-b", 1)).await?];
    let keyed = |number: i64| {
        event("a-b", number).with_idempotency_key(IdempotencyKey::parse(format!("k{number}")).expect("a key"))
    };

    // The driver tries twice, except for a write, so the third try is ours.
    for what in [doc! { "closeConnection": true }, doc! { "errorCode": 10107 }, doc! { "errorCode": 91 }] {
        for command in ["insert", "commitTransaction", "find"] {
            let mut what = what.clone();
            what.insert("failCommands", [command]);
            fail(&admin, doc! { "times": 3 }.into(), what).await?;
            stored.push(provider.store(event("a-b", 1)).await?);
            stored.push(provider.store(keyed(stored.len() as i64)).await?);
            assert_eq!(provider.get(stored[0]).await?.map(|memory| memory.id), Some(stored[0]), "{command}");
        }
    }
    // Done, and the answer lost.
    for number in 0..3 {
        let lost = doc! { "failCommands": ["insert"], "writeConcernError": { "code": 91, "errmsg": "on purpose" } };
        fail(&admin, doc! { "times": 1 }.into(), lost).await?;
        stored.push(provider.store(event("a-b", number)).await?);
    }
    stored.sort_unstable();
    let mut found = all(&provider).await?;
    found.sort_unstable();
    assert_eq!(found, stored, "each is there once");

    // A command that is lost within a transaction has changed nothing, and is repeated; a commit is repeated until its
    // outcome is known.
    let patch = || MemoryPatch::new().with_status(Status::Completed);
    for (revision, command) in (2..).zip(["update", "commitTransaction"]) {
        fail(&admin, doc! { "times": 3 }.into(), doc! { "failCommands": [command], "closeConnection": true }).await?;
        assert_eq!(provider.update(stored[0], patch()).await?.revision.get(), revision, "{command}");
    }
    // A call that can't be repeated is not.
    let hasty = open(config(&format!("{}&heartbeatFrequencyMS=500&deadline_ms=1000", server.url()))).await?;
    fail(&admin, "alwaysOn".into(), doc! { "failCommands": ["commitTransaction"], "closeConnection": true }).await?;
    let unknown = hasty.update(stored[0], patch()).await.expect_err("a lost answer");
    assert!(matches!(unknown.kind(), ErrorKind::Unavailable | ErrorKind::Timeout), "{unknown:?}");
    assert_eq!(unknown.outcome(), Outcome::Unknown);
    fail(&admin, "off".into(), doc! {}).await?;
    let revision = provider.update(stored[0], patch()).await?.revision.get();
    assert!((4..=5).contains(&revision), "revision {revision}");
    let versions = provider.history(&History::of(stored[0])).await?.versions;
    assert_eq!(versions.len() as u64, revision, "an entry for each update that is done");
    Ok(())
}

/// Whatever the server refuses, cuts off or does silently: no write that was done is reported as not done, and none is
/// done twice.
pub(crate) async fn what_is_told_of_a_write_is_true() -> CaseResult {
    const WRITES: &[&str] = &["insert", "update", "delete"];
    const COMMIT: &[&str] = &["commitTransaction"];
    let server = LocalMongo::start_with(1, &["--setParameter", "enableTestCommands=1"])?;
    let (direct, admin) = (open(config(&server.url())).await?, admin(&server.url()).await?);
    let url = format!("{}&heartbeatFrequencyMS=500&deadline_ms=1000", server.url());
    let (provider, mut round) = (open(config(&url)).await?, 0);
    let error = |code: i32| doc! { "errorCode": code };
    let concern = |code: i32| doc! { "writeConcernError": { "code": code, "errmsg": "on purpose" } };
    let refused = [6, 7, 13, 50, 89, 91, 189, 262, 9001, 10107, 11602, 13435].map(|code| (WRITES, error(code)));
    let done = [64, 91, 10107].map(|code| (WRITES, concern(code)));
    let ends = [error(6), error(13), error(10107), concern(64), doc! { "closeConnection": true }];
    let ends = ends.map(|what| (COMMIT, what));
    let cut = (WRITES, doc! { "closeConnection": true });
    for (commands, mut what) in refused.into_iter().chain(done).chain(ends).chain([cut]) {
        round += 1;
        let writes = prepare(&direct, round).await?;
        what.insert("failCommands", commands);
        fail(&admin, "alwaysOn".into(), what.clone()).await?;
        let told = futures::future::join_all(writes.iter().map(|write| write.attempt(&provider))).await;
        fail(&admin, "off".into(), doc! {}).await?;
        for (write, told) in writes.iter().zip(told) {
            write.check(&direct, told, &what).await?;
            match what.get_i32("errorCode") {
                Ok(13) if commands == WRITES => assert_eq!(told, Some(Outcome::NotDone), "{write:?}"),
                // A command that was cut off may have taken effect, unless it is part of a transaction.
                Ok(6 | 7 | 50 | 89 | 91 | 189 | 262 | 9001 | 11602) if commands == WRITES && !write.is_together() => {
                    assert_eq!(told, Some(Outcome::Unknown), "{write:?} {what}");
                }
                _ => {}
            }
        }
    }

    // The answer is lost, and the repetition is refused.
    let proxy = Proxy::before(&server.url()).await?;
    let url = format!("{}&directConnection=true&heartbeatFrequencyMS=500&deadline_ms=1000", proxy.url());
    let (behind, mut lost) = (open(config(&url)).await?, 0);
    let refuse = doc! { "failCommands": WRITES, "errorCode": 10107 };
    for bytes in (0..600).step_by(100) {
        round += 1;
        for write in prepare(&direct, round).await? {
            behind.check_health().await?;
            fail(&admin, doc! { "skip": 1 }.into(), refuse.clone()).await?;
            proxy.set(Fault::CutAnswer(Place::Bytes(bytes)));
            let told = write.attempt(&behind).await;
            lost += usize::from(proxy.fault() == Fault::None);
            proxy.set(Fault::None);
            fail(&admin, "off".into(), doc! {}).await?;
            write.check(&direct, told, &doc! { "cut": bytes as i64 }).await?;
        }
    }
    assert!(lost >= 20, "only {lost} answers were lost");
    Ok(())
}

/// A write, and the record that it is about.
#[derive(Debug)]
enum Write {
    Append(String),
    AppendTogether(String),
    Replace(MemoryId),
    PutNew(String),
    Put(String),
    Remove(String),
    RemoveTogether(String),
    Restore(Box<memory_core::Document>),
    Erase(MemoryId),
}

/// One write of each kind, after what it needs was stored.
async fn prepare(direct: &MongoMemory, round: usize) -> Result<Vec<Write>, Error> {
    let name = |kind: &str| format!("{kind}-{round}");
    let documents = direct.documents();
    for id in ["put", "remove", "together", "also-together"] {
        documents.put(note(&name(id))).await?;
    }
    let mut restored = documents.put(note("given")).await?;
    restored.id = DocumentId::parse(name("restored"))?;
    Ok(vec![
        Write::Append(name("append")),
        Write::AppendTogether(name("append-together")),
        Write::Replace(direct.store(event("replaced", 1)).await?),
        Write::PutNew(name("new")),
        Write::Put(name("put")),
        Write::Remove(name("remove")),
        Write::RemoveTogether(name("together")),
        Write::Restore(Box::new(restored)),
        Write::Erase(direct.store(event("erased", 1)).await?),
    ])
}

impl Write {
    /// Whether it is a transaction.
    fn is_together(&self) -> bool {
        !matches!(self, Self::Append(_))
    }

    /// Writes, and returns the outcome of its error; `None` if it succeeded.
    async fn attempt(&self, provider: &MongoMemory) -> Option<Outcome> {
        let documents = provider.documents();
        let selection = |ids: &[&str]| {
            let ids = ids.iter().map(|id| DocumentId::parse(*id).expect("valid"));
            DocumentSelection::ids(note("any").collection, ids).expect("valid")
        };
        let keyed = |name: &str| event(name, 1).with_idempotency_key(IdempotencyKey::parse(name).expect("a key"));
        let done = match self {
            Self::Append(name) => provider.store(event(name, 1)).await.map(drop),
            Self::AppendTogether(name) => provider.store_many(vec![event(name, 1), keyed(name)]).await.map(drop),
            Self::Replace(id) => provider.update(*id, MemoryPatch::new().with_status(Status::Failed)).await.map(drop),
            Self::PutNew(name) => documents.put(note(name).expect(Expect::Absent)).await.map(drop),
            Self::Put(name) => documents.put(note(name)).await.map(drop),
            Self::Remove(name) => documents.remove(&selection(&[name.as_str()]), 1).await.map(drop),
            Self::RemoveTogether(name) => {
                documents.remove(&selection(&[name.as_str(), &format!("also-{name}")]), 2).await.map(drop)
            }
            Self::Restore(document) => documents.restore(vec![(**document).clone()]).await.map(drop),
            Self::Erase(id) => {
                let erasure = Erasure::records([(*id).into()], "why").expect("valid");
                provider.erase(&erasure).await.map(drop)
            }
        };
        done.err().map(|error| error.outcome())
    }

    /// Fails if the reported outcome contradicts the data.
    async fn check(&self, direct: &MongoMemory, told: Option<Outcome>, trouble: &Document) -> CaseResult {
        let (mut times, mut left) = (self.times(direct, trouble).await?, self.left(direct).await?);
        // A write that nobody waits for any more may still be committed meanwhile.
        loop {
            let now = self.times(direct, trouble).await?;
            if now == times {
                break;
            }
            (times, left) = (now, self.left(direct).await?);
        }
        let fits = match told {
            None => times == 1,
            Some(Outcome::NotDone) => times == 0,
            Some(Outcome::Unknown) => times <= 1,
        };
        assert!(fits, "{self:?} was told {told:?} and is there {times} times: {trouble}");
        assert!(left.is_none_or(|left| left == times), "{left:?} entries for {times}: {self:?} {trouble}");
        Ok(())
    }

    /// How often it is done.
    async fn times(
        &self,
        direct: &MongoMemory,
        trouble: &Document,
    ) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
        let documents = direct.documents();
        let revision = async |id: &str| {
            let document = documents.get(&note(id).collection, &DocumentId::parse(id).expect("valid")).await;
            document.map(|document| document.map_or(0, |document| document.revision.get()))
        };
        let stored = async |name: &str| {
            let page = direct.query(&MemoryQuery::builder().exact(name).build()?).await;
            page.map(|page| page.memories.len() as u64)
        };
        Ok(match self {
            Self::Append(name) => stored(name).await?,
            Self::AppendTogether(name) => match stored(name).await? {
                0 => 0,
                2 => 1,
                some => return Err(format!("{some} of two are there: {self:?} {trouble}").into()),
            },
            Self::Replace(id) => direct.get(*id).await?.ok_or("a memory is gone")?.revision.get() - 1,
            Self::PutNew(name) => revision(name).await?,
            Self::Put(name) => revision(name).await? - 1,
            Self::Remove(name) => 1 - revision(name).await?,
            Self::RemoveTogether(name) => match (revision(name).await?, revision(&format!("also-{name}")).await?) {
                (1, 1) => 0,
                (0, 0) => 1,
                some => return Err(format!("{some:?} of two are there: {self:?} {trouble}").into()),
            },
            Self::Restore(document) => u64::from(revision(document.id.as_str()).await? > 0),
            Self::Erase(id) => u64::from(direct.tombstone(&(*id).into()).await?.is_some()),
        })
    }

    /// How many entries it has left in a history; `None` if it leaves none.
    async fn left(&self, direct: &MongoMemory) -> Result<Option<u64>, Error> {
        let of = |id: &str| RecordId::from((note(id).collection, DocumentId::parse(id).expect("valid")));
        let (record, before) = match self {
            Self::Append(_) | Self::AppendTogether(_) | Self::Erase(_) => return Ok(None),
            Self::Replace(id) => ((*id).into(), 1),
            Self::PutNew(name) => (of(name), 0),
            Self::Put(name) | Self::Remove(name) | Self::RemoveTogether(name) => (of(name), 1),
            Self::Restore(document) => (of(document.id.as_str()), 0),
        };
        let versions = direct.history(&History::of(record).with_removed()).await?.versions;
        Ok(Some(versions.len() as u64 - before))
    }
}
