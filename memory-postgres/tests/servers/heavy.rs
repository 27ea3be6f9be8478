//! Calls that have much to parse and to match.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use conformance::server::postgres::LocalPostgres;
use memory_core::{MemoryProvider, MemoryQuery, NewMemory, Trigger};
use tokio::runtime::Builder;

use crate::common::{Case, config, event, open, run};

/// Heavy work runs on a thread of its own, and light work does not.
pub(crate) fn own_thread() -> Case {
    let server = LocalPostgres::start()?;
    for (size, is_heavy) in [(6, false), (256 << 10, true)] {
        let threads = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&threads);
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_all().on_thread_start(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let done: Case = runtime.build()?.block_on(async {
            let provider = open(config(server.url())).await?;
            let id = provider.store(large(&"a".repeat(size), 1)).await?;
            // Without a filter, with which the provider itself takes a query for heavy.
            let page = provider.query(&MemoryQuery::builder().all().build()?).await?;
            assert!(page.memories.iter().any(|memory| memory.id == id));
            Ok(())
        });
        done?;
        assert_eq!(threads.load(Ordering::Relaxed) > 0, is_heavy, "{size} bytes");
    }
    Ok(())
}

/// Several large payloads are read at once.
pub(crate) fn large_payloads() -> Case {
    let server = LocalPostgres::start_with(&[("log_statement", "all")])?;
    run(async {
        let provider = open(config(server.url())).await?;
        let text = "a".repeat(100 << 10);
        let ids = provider.store_many((1..=32).map(|number| large(&text, number)).collect()).await?;
        let log = || std::fs::read_to_string(server.folder().join("log"));
        let before = log()?.len();
        let page = provider.query(&MemoryQuery::builder().all().build()?).await?;
        assert!(page.memories.iter().map(|memory| memory.id).eq(ids.into_iter().rev()));
        assert!(page.memories.iter().all(|memory| memory.trigger.as_str().len() > text.len()));
        let read = log()?.split_off(before).matches("WHERE id = ANY($1)").count();
        assert_eq!(read, 1);
        Ok(())
    })
}

fn large(text: &str, number: i64) -> NewMemory {
    let mut memory = event("a-b", number);
    memory.trigger = Trigger::parse(&json(text)).expect("valid");
    memory
}

/// A text of letters and spaces as JSON.
fn json(text: &str) -> String {
    format!("\"{text}\"")
}
