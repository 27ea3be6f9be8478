//! The addresses that pages link to, with encoded parameters.

use memory_core::{BOUNDARIES, Document, MemoryId, SpaceId};

use super::paths::{DOCUMENT, MEMORY};

/// A path with the parameters that have a value.
pub(super) fn link(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// The page of a memory.
pub(super) fn memory(id: MemoryId) -> String {
    format!("{MEMORY}/{id}")
}

/// The page of a document. Its id is no part of the path, where browsers would resolve one that is `..`.
pub(super) fn document(document: &Document) -> String {
    document_at(DOCUMENT, document)
}

/// An address that takes a document by its name, as [`document`] does.
pub(super) fn document_at(path: &str, document: &Document) -> String {
    link(path, &[("collection", document.collection.as_str()), ("id", document.id.as_str())])
}

/// The parameter that selects a space with all below it; the space alone where it ends with a boundary, below which nothing lies.
pub(super) fn place(space: &SpaceId) -> (&'static str, &str) {
    let name = if space.as_str().ends_with(BOUNDARIES) { "space" } else { "under" };
    (name, space.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_encoded() {
        assert_eq!(link("/x", &[("a", ""), ("b", "1&c=\"2\" <é>")]), "/x?b=1%26c%3D%222%22+%3C%C3%A9%3E");
        assert_eq!(link("/x", &[("a", "")]), "/x");
    }
}
