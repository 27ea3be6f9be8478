//! What a recall finds (R1, R5, R6, M3). Scores are not computed.

use memory_core::{Collection, MemoryId, RecordId};

use super::{Answer, Naive, is_in_scope, json, text, text_of};
use crate::model::op::{Ask, Question};

/// The records of a recall's scope.
pub(crate) struct Scope {
    pub(crate) count: usize,
    /// How many of them have the word.
    pub(crate) holders: usize,
    /// How many of them have no vector.
    pub(crate) unembedded: usize,
    /// Those that satisfy all conditions.
    pub(crate) wanted: Vec<Wanted>,
}

/// A record that may be a hit.
pub(crate) struct Wanted {
    pub(crate) json: String,
    pub(crate) has_word: bool,
    pub(crate) has_vector: bool,
}

impl Naive {
    /// The scope of a recall by one word, which may be empty.
    pub(crate) fn scope_of_memories(&self, question: &Question, excluded: &[MemoryId], word: &str) -> Answer<Scope> {
        let wanted = self.query(question, excluded)?;
        let records = self.memories.iter().filter(|memory| is_in_scope(&question.ask, memory.space_id.as_str()));
        let records = records.map(|memory| (RecordId::Memory(memory.id), json(memory), text_of(memory)));
        Ok(self.scope(records, &wanted, word))
    }

    /// The scope of a recall of documents by one word, which may be empty.
    pub(crate) fn scope_of_documents(&self, name: &Collection, ask: &Ask, word: &str) -> Answer<Scope> {
        let wanted = self.query_documents(name, ask)?;
        let records = self.documents.iter().filter(|document| document.collection == *name);
        let records = records.filter(|document| is_in_scope(ask, document.space_id.as_str()));
        let records =
            records.map(|document| (RecordId::from(document), json(document), document.content.as_str().to_owned()));
        Ok(self.scope(records, &wanted, word))
    }

    fn scope(&self, records: impl Iterator<Item = (RecordId, String, String)>, wanted: &[String], word: &str) -> Scope {
        let mut scope = Scope { count: 0, holders: 0, unembedded: 0, wanted: vec![] };
        for (record, json, text) in records {
            let has_word = text::words(&text).contains(&word.to_lowercase());
            let has_vector = self.vectors.contains_key(&record);
            scope.count += 1;
            scope.holders += usize::from(has_word);
            scope.unembedded += usize::from(!has_vector);
            if wanted.contains(&json) {
                scope.wanted.push(Wanted { json, has_word, has_vector });
            }
        }
        scope
    }
}
