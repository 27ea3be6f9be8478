//! What is to be erased, as the command line says it.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_context::records::{EntityId, Records};
use memory_core::{
    Collection, DocumentId, DocumentQuery, Documents, Erasure, Ledger, MemoryProvider, QueryBuilder, RecordId, Result,
};
use serde_json::{Value, json};

use super::EraseArgs;
use super::certificate::DocumentName;
use crate::args;
use crate::commands::copy::is_copied;
use crate::usage::Usage;

/// What is to be erased.
pub(super) struct Selection<'a> {
    provider: &'a Arc<dyn MemoryProvider>,
    args: &'a EraseArgs,
    /// The records of the agent that knows the person, and the person.
    person: Option<(Records, EntityId)>,
}

/// What is there of it.
pub(super) struct Found {
    /// In the order in which it is erased.
    pub(super) parts: Vec<Part>,
    /// What belongs to others and lists the person.
    pub(super) lists: Vec<RecordId>,
    /// What of it other agents read too.
    pub(super) shared: BTreeSet<RecordId>,
}

/// A part of what is selected, which one erasure or several take.
pub(super) enum Part {
    Memories(QueryBuilder<Ledger>),
    Documents(QueryBuilder<Documents>),
    Records(Vec<RecordId>),
}

impl<'a> Selection<'a> {
    /// A mistake in the arguments where it is everything, or can't be asked for.
    pub(super) fn new(provider: &'a Arc<dyn MemoryProvider>, args: &'a EraseArgs) -> Result<Self, Usage> {
        let person = args.person.clone().zip(args.agent.clone());
        let person = person.map(|(entity, agent)| (Records::new(Arc::clone(provider), agent), entity));
        let selection = Self { provider, args, person };
        if selection.is_query() {
            // Refused before anything is looked at; the reason is no part of that.
            Erasure::memories(selection.memories(), "none yet")?;
        }
        Ok(selection)
    }

    /// What of it is there now.
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

    /// The records that are named one by one.
    pub(super) fn named(&self) -> Vec<RecordId> {
        let documents = self.args.document.iter().cloned().map(RecordId::from);
        let named: BTreeSet<_> = self.args.ids.iter().copied().map(RecordId::from).chain(documents).collect();
        named.into_iter().collect()
    }

    pub(super) fn is_of_person(&self) -> bool {
        self.person.is_some()
    }

    /// Takes the person out of what belongs to others; tells of how many.
    pub(super) async fn leave_lists(&self) -> Result<usize> {
        match &self.person {
            Some((records, entity)) => records.person(entity.clone()).leave_lists().await,
            None => Ok(0),
        }
    }

    /// As it was given.
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
        // How far a copy is belongs to no space and to nobody.
        Ok(self.provider.documents().collections().await?.into_iter().filter(is_copied).collect())
    }
}
