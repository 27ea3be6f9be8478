//! What is asked of documents more than once.

use memory_core::{Document, DocumentStore, Documents, MAX_LIMIT, QueryBuilder, Result};

/// What the documents hold that a query without text finds, in its order, `limit` at most. A page may be short: only one without
/// a cursor ends. A document that can't be read, or in which `read` finds something else, is logged and hides no other.
pub(crate) async fn find<T>(
    documents: &dyn DocumentStore,
    query: QueryBuilder<Documents>,
    limit: usize,
    read: impl Fn(Document) -> Result<T>,
) -> Result<Vec<T>> {
    let (mut found, mut cursor) = (Vec::new(), None);
    while found.len() < limit {
        let page = query.clone().limit((limit - found.len()).min(MAX_LIMIT));
        let page = cursor.iter().fold(page, |page, cursor| page.cursor(cursor));
        let page = documents.query(&page.build()?).await?;
        for row in page.unreadable {
            tracing::warn!(id = row.id, reason = row.reason, "a document can't be read");
        }
        for document in page.documents {
            let id = document.id.clone();
            match read(document) {
                Ok(held) => found.push(held),
                Err(error) => tracing::warn!(%id, %error, "a document holds something else"),
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(found)
}
