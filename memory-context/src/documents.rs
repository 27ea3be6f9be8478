//! Paged reads of documents, which several modules share.

use memory_core::{Document, DocumentStore, Documents, MAX_LIMIT, QueryBuilder, Result};

/// Reads up to `limit` documents that a query without text finds, in its order. It follows cursors, since a short page need not be the
/// last. A document that is damaged, or that `read` refuses, is logged and skipped.
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
