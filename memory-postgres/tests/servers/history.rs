//! The history when several programs write at once.

use conformance::server::postgres::LocalPostgres;
use memory_core::{
    Actor, Collection, Content, DocumentId, DocumentSelection, DocumentWrite, Error, History, MemoryProvider, Record,
};
use tokio::task::JoinSet;

use crate::common::{Case, at, config, open, run};

const WRITERS: usize = 4;
const PUTS: usize = 40;

/// Each version comes after the one that it has replaced, in each life of an id that concurrent programs put and
/// remove.
pub(crate) fn in_order() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let provider = open(config(server.url())).await?;
            writers.spawn(async move {
                for number in 0..PUTS {
                    let text = format!("put {number} of {writer}");
                    let write = DocumentWrite::new(notes(), "a-b".parse()?, Content::parse(text.as_str())?, at(1));
                    provider.documents().put(write.with_id(id()).by(Actor::parse(text)?)).await?;
                    if number % 3 == writer % 3 {
                        provider.documents().remove(&DocumentSelection::ids(notes(), [id()])?, 1).await?;
                    }
                }
                Ok::<_, Error>(())
            });
        }
        for done in writers.join_all().await {
            done?;
        }

        let provider = open(config(server.url())).await?;
        let history = History::of((notes(), id())).with_removed().limit(1_000)?;
        let versions = provider.history(&history).await?.versions;
        assert_eq!(versions.iter().filter(|version| version.record.is_some()).count(), WRITERS * PUTS);
        let mut last: Option<u64> = None;
        for version in versions.iter().rev() {
            let revision = version.revision.get();
            if let Some(Record::Document(document)) = &version.record {
                assert_eq!(Some(document.content.as_str()), version.actor.as_ref().map(Actor::as_str));
                assert_eq!((document.revision.get(), last.unwrap_or(0) + 1), (revision, revision));
                last = Some(revision);
            } else {
                assert_eq!(last.take(), Some(revision), "a removal takes away the last version");
            }
        }
        let there = provider.documents().get(&notes(), &id()).await?;
        assert_eq!(there.map(|document| document.revision.get()), last);
        Ok(())
    })
}

fn notes() -> Collection {
    Collection::parse("notes").expect("valid")
}

fn id() -> DocumentId {
    DocumentId::parse("d").expect("valid")
}
