//! What a conversation stores, without the parts that change by run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use memory_context::core::{DocumentQuery, MemoryProvider, MemoryQuery, Order, VectorKeeper};
use regex::{Captures, Regex};
use serde_json::{Value, json};

/// Random ids, and hashes, which may be hashes of such ids.
static IDS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32,64}").expect("valid"));
/// Milliseconds since 1970, from 2017 on.
static TIMES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b1[5-9][0-9]{11}\b").expect("valid"));

/// All records of a provider, one per line: memories, oldest first, then documents by their collections and contents.
pub(crate) async fn export(provider: &dyn MemoryProvider) -> Vec<String> {
    let all = MemoryQuery::builder().all().order(Order::OldestFirst).limit(1_000).build().expect("a query");
    let page = provider.query(&all).await.expect("read");
    assert!(page.next.is_none() && page.unreadable.is_empty(), "all at once");
    let mut lines: Vec<_> = page.memories.iter().map(|memory| serde_json::to_string(memory).expect("JSON")).collect();
    // The position of the keeper of vectors, and how often it saves it, depend on timing.
    let collections = provider.documents().collections().await.expect("read");
    for collection in collections.into_iter().filter(|one| one.as_str() != VectorKeeper::COLLECTION) {
        let all = DocumentQuery::builder(collection).all().limit(1_000).build().expect("a query");
        let page = provider.documents().query(&all).await.expect("read");
        assert!(page.next.is_none() && page.unreadable.is_empty(), "all at once");
        let mut documents: Vec<_> =
            page.documents.iter().map(|document| serde_json::to_string(document).expect("JSON")).collect();
        documents.sort_by_cached_key(|document| TIMES.replace_all(&IDS.replace_all(document, "ID"), "0").into_owned());
        lines.extend(documents);
    }
    lines
}

/// The same lines with numbers instead of ids, in the order in which they appear, and without times.
pub(crate) fn stable(lines: &[String]) -> String {
    let mut known = BTreeMap::new();
    let mut text = String::new();
    for line in lines {
        let line = IDS.replace_all(line, |found: &Captures<'_>| {
            let next = known.len() + 1;
            format!("id-{}", known.entry(found[0].to_owned()).or_insert(next))
        });
        text += &TIMES.replace_all(&line, "0");
        text.push('\n');
    }
    text
}

/// Compares with the golden file of this name, or writes it.
pub(crate) fn compare(name: &str, text: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("MEMORY_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, text).expect("written");
        return;
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file");
    for (number, (line, golden)) in text.lines().zip(golden.lines()).enumerate() {
        assert_eq!(line, golden, "line {} of {name}; MEMORY_WRITE_GOLDEN=1 writes it anew", number + 1);
    }
    assert_eq!(text, golden, "{name}; MEMORY_WRITE_GOLDEN=1 writes it anew");
}

/// A turn as a line.
pub(crate) fn line(turn: &Value) -> String {
    json!({ "turn": turn }).to_string()
}
