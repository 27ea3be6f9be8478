//! What is asked of documents more than once.

use memory_core::{Document, DocumentStore, Documents, MAX_LIMIT, QueryBuilder, Result};

/// The documents that a query without text finds, in its order, `limit` at most. A page may be short: only one without a
/// cursor ends. Those that can't be read are logged and left out.
pub(crate) async fn find(
    documents: &dyn DocumentStore,
    query: QueryBuilder<Documents>,
    limit: usize,
) -> Result<Vec<Document>> {
    let (mut found, mut cursor) = (Vec::new(), None);
    while found.len() < limit {
        let page = query.clone().limit((limit - found.len()).min(MAX_LIMIT));
        let page = cursor.iter().fold(page, |page, cursor| page.cursor(cursor));
        let page = documents.query(&page.build()?).await?;
        for row in page.unreadable {
            tracing::warn!(id = row.id, reason = row.reason, "a document can't be read");
        }
        found.extend(page.documents);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(found)
}
