//! The selection of the records to erase.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_context::records::{EntityId, Records};
use memory_core::{
    Collection, Cursor, DocumentId, DocumentQuery, Documents, Erasure, Kind, Ledger, MemoryProvider, Query,
    QueryBuilder, RecordId, Result, Unreadable,
};
use serde_json::{Value, json};

use super::args::EraseArgs;
use super::certificate::DocumentName;
use crate::args;
use crate::collections::is_copied;
use crate::usage::Usage;

/// The selection of the records to erase, from the command line.
pub(super) struct Selection<'a> {
    provider: &'a Arc<dyn MemoryProvider>,
    args: &'a EraseArgs,
    /// The records of the agent, and the person.
    person: Option<(Records, EntityId)>,
}

/// The records that a selection finds.
pub(super) struct Found {
    /// The parts, in the order in which they are erased.
    pub(super) parts: Vec<Part>,
    /// The records of others that list the person.
    pub(super) lists: Vec<RecordId>,
    /// The records that other agents read, too.
    pub(super) shared: BTreeSet<RecordId>,
}

/// A part of a selection, which one erasure or several take.
pub(super) enum Part {
    Memories(QueryBuilder<Ledger>),
    Documents(QueryBuilder<Documents>),
    Records(Vec<RecordId>),
}

/// A page of what the query of a part finds.
#[derive(Default)]
pub(super) struct PartPage {
    /// What such a record is called.
    pub(super) kind: &'static str,
    pub(super) records: Vec<RecordId>,
    pub(super) unreadable: Vec<Unreadable>,
    pub(super) next: Option<Cursor>,
}

impl Part {
    /// Reads the page at a cursor, which is empty for individually named records: no query finds these.
    pub(super) async fn page(
        &self,
        provider: &dyn MemoryProvider,
        limit: usize,
        cursor: Option<&Cursor>,
    ) -> anyhow::Result<PartPage> {
        Ok(match self {
            Self::Memories(query) => {
                let page = provider.query(&page_at(query, limit, cursor)?).await?;
                let records = page.memories.into_iter().map(|memory| memory.id.into()).collect();
                PartPage { kind: "memory", records, unreadable: page.unreadable, next: page.next }
            }
            Self::Documents(query) => {
                let page = provider.documents().query(&page_at(query, limit, cursor)?).await?;
                let records = page.documents.into_iter().map(|document| (document.collection, document.id).into());
                let records = records.collect();
                PartPage { kind: "document", records, unreadable: page.unreadable, next: page.next }
            }
            Self::Records(_) => PartPage::default(),
        })
    }
}

fn page_at<K: Kind + Clone>(query: &QueryBuilder<K>, limit: usize, cursor: Option<&Cursor>) -> Result<Query<K>, Usage> {
    args::build(cursor.into_iter().fold(query.clone().limit(limit), QueryBuilder::cursor))
}

impl<'a> Selection<'a> {
    /// Makes the selection. It is a mistake in the arguments if it selects everything, or is invalid.
    pub(super) fn new(provider: &'a Arc<dyn MemoryProvider>, args: &'a EraseArgs) -> Result<Self, Usage> {
        let person = args.person.clone().zip(args.agent.clone());
        let person = person.map(|(entity, agent)| (Records::new(Arc::clone(provider), agent), entity));
        let selection = Self { provider, args, person };
        if selection.is_query() {
            // Checked before anything is read; the reason does not matter for that.
            Erasure::memories(selection.memories(), "none yet")?;
        }
        Ok(selection)
    }

    /// Finds the selected records as of now.
    pub(super) async fn find(&self) -> anyhow::Result<Found> {
        if let Some((records, entity)) = &self.person {
            let traces = records.person(entity.clone()).traces().await.map_err(args::refused)?;
            let memories = traces.memories.into_iter().map(Part::Memories);
            let parts = memories.chain(traces.documents.into_iter().map(Part::Documents));
            let parts = parts.chain([Part::Records(traces.records)]).collect();
            return Ok(Found { parts, lists: traces.lists, shared: traces.shared.into_iter().collect() });
        }
        let mut parts = Vec::new();
        if self.is_query() {
            parts.push(Part::Memories(self.memories()));
            if self.args.documents {
                parts.extend(self.collections().await?.into_iter().map(|one| Part::Documents(self.documents(one))));
            }
        } else {
            parts.push(Part::Records(self.named()));
        }
        Ok(Found { parts, lists: Vec::new(), shared: BTreeSet::new() })
    }

    /// The individually named records.
    pub(super) fn named(&self) -> Vec<RecordId> {
        let documents = self.args.document.iter().cloned().map(RecordId::from);
        let named: BTreeSet<_> = self.args.ids.iter().copied().map(RecordId::from).chain(documents).collect();
        named.into_iter().collect()
    }

    pub(super) fn is_of_person(&self) -> bool {
        self.person.is_some()
    }

    /// Removes the person from the lists of others, and returns how many there were.
    pub(super) async fn leave_lists(&self) -> Result<usize> {
        match &self.person {
            Some((records, entity)) => records.person(entity.clone()).leave_lists().await,
            None => Ok(0),
        }
    }

    /// The selection as JSON, as it was given.
    pub(super) fn to_json(&self) -> Value {
        let EraseArgs { ids, document, spaces, conditions, text, documents, collection, person, agent, .. } = self.args;
        if let Some((person, agent)) = person.as_ref().zip(agent.as_ref()) {
            return json!({ "person": person, "agent": agent });
        }
        if !self.is_query() {
            let name = |(collection, id): &(Collection, DocumentId)| DocumentName {
                collection: collection.clone(),
                id: id.clone(),
            };
            let documents: Vec<_> = document.iter().map(name).collect();
            return match documents.is_empty() {
                true => json!({ "ids": ids }),
                false => json!({ "ids": ids, "documents": documents }),
            };
        }
        let mut given = conditions.to_json();
        given.insert("spaces".to_owned(), spaces.to_json());
        given.extend(text.as_ref().map(|text| ("text".to_owned(), json!(text))));
        given.extend(documents.then(|| ("documents".to_owned(), json!(true))));
        given.extend((!collection.is_empty()).then(|| ("collections".to_owned(), json!(collection))));
        Value::Object(given)
    }

    fn is_query(&self) -> bool {
        self.args.ids.is_empty() && self.args.document.is_empty() && self.person.is_none()
    }

    fn memories(&self) -> QueryBuilder<Ledger> {
        let query = self.args.conditions.query(&self.args.spaces);
        self.args.text.iter().fold(query, QueryBuilder::text)
    }

    fn documents(&self, collection: Collection) -> QueryBuilder<Documents> {
        let query = self.args.spaces.apply(DocumentQuery::builder(collection));
        let query = args::with_filter(query, self.args.conditions.filter());
        self.args.text.iter().fold(query, QueryBuilder::text)
    }

    async fn collections(&self) -> Result<Vec<Collection>> {
        if !self.args.collection.is_empty() {
            return Ok(self.args.collection.clone());
        }
        // The mark of a copy belongs to no space and no person.
        Ok(self.provider.documents().collections().await?.into_iter().filter(is_copied).collect())
    }
}
