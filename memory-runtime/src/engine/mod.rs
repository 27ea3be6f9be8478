//! Opens providers by URL.

mod kind;
mod url;

use std::sync::Arc;

use memory_core::{Inspection, MemoryProvider, Result};
use migrations::Report;

pub(crate) use kind::Engine;
pub use url::EngineUrl;

/// Returns the provider that a URL names. It touches no file and no network before [`init`](MemoryProvider::init) (O1).
///
/// Fails with `InvalidInput` if the scheme is unknown, if its engine was not compiled in, or if the engine refuses the rest of the URL.
pub fn open(url: &str) -> Result<Arc<dyn MemoryProvider>> {
    engine(url)?.open()
}

/// Creates or migrates the schema, as [`init`](MemoryProvider::init) does, and returns the steps that it took.
///
/// Refuses the URLs that [`open`] refuses; other errors are those of the engine.
pub async fn migrate(url: &str) -> Result<Report> {
    engine(url)?.migrate().await
}

/// Returns the steps that [`migrate`] would take, and changes nothing.
///
/// Refuses the URLs that [`open`] refuses; other errors are those of the engine.
pub async fn plan(url: &str) -> Result<Report> {
    engine(url)?.plan().await
}

/// Returns what is missing in the schema, how many bytes the data takes, and the server's time; changes nothing.
///
/// Refuses the URLs that [`open`] refuses; other errors are those of the engine.
pub async fn inspect(url: &str) -> Result<Inspection> {
    engine(url)?.inspect().await
}

/// The engine of a URL with the URL's settings.
pub(crate) fn engine(url: &str) -> Result<Box<dyn Engine>> {
    EngineUrl::parse(url)?.engine()
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use memory_core::ErrorKind;

    use super::*;

    /// What all four calls say about a URL, which none of them quotes.
    fn refused(url: &str) -> String {
        let errors = [
            open(url).expect_err(url),
            block_on(migrate(url)).expect_err(url),
            block_on(plan(url)).expect_err(url),
            block_on(inspect(url)).expect_err(url),
        ];
        for error in &errors {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            assert_eq!(error.message(), errors[0].message());
            assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
        }
        errors[0].message().to_owned()
    }

    const SCHEMES: [&str; 6] = ["sqlite:", "postgres://", "postgresql://", "redis://", "mongodb://", "mongodb+srv://"];

    #[test]
    fn an_unknown_scheme_is_refused_with_the_known_ones() {
        for url in ["mysql://app:xyzzy@host/db", "xyzzy:a@host", "xyzzy/memory.db", "SQLITE://xyzzy", "://xyzzy", ""] {
            let message = refused(url);
            assert!(SCHEMES.iter().all(|scheme| message.contains(scheme)), "{message}");
        }
    }

    #[cfg(not(feature = "sqlite"))]
    #[test]
    fn without_its_feature_sqlite_is_refused() {
        assert!(refused("sqlite://xyzzy.db").ends_with("--features sqlite"));
    }

    #[cfg(not(feature = "postgres"))]
    #[test]
    fn without_its_feature_postgres_is_refused() {
        for url in ["postgres://app:xyzzy@host/db", "postgresql://app:xyzzy@host/db"] {
            assert!(refused(url).ends_with("--features postgres"));
        }
    }

    #[cfg(not(feature = "mongo"))]
    #[test]
    fn without_its_feature_mongo_is_refused() {
        for url in ["mongodb://app:xyzzy@host/db", "mongodb+srv://app:xyzzy@host/db"] {
            assert!(refused(url).ends_with("--features mongo"));
        }
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn sqlite_is_opened_by_its_url() {
        assert!(refused("sqlite://a.db?mode=xyzzy").contains("mode"));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("memory.db");
        let provider = open(&format!("sqlite://{}", file.display())).expect("valid");
        assert!(!file.exists(), "nothing is touched before init");
        drop(provider);
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn sqlite_is_migrated_as_planned() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite://{}", folder.path().join("memory.db").display());
        let planned = plan(&url).await.expect("a plan");
        assert!(!planned.applied.is_empty());
        assert_eq!(migrate(&url).await.expect("migrated").applied, planned.applied);
        assert!(plan(&url).await.expect("a plan").applied.is_empty());
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn postgres_is_opened_by_its_url() {
        // Nobody listens on port 1, and nobody is asked before init.
        for scheme in ["postgres", "postgresql"] {
            assert!(refused(&format!("{scheme}://app:xyzzy@localhost:1/db?options=xyzzy")).contains("options"));
            open(&format!("{scheme}://app:xyzzy@localhost:1/db")).expect("valid");
        }
    }

    #[cfg(feature = "mongo")]
    #[test]
    fn mongo_is_opened_by_its_url() {
        // Nobody listens on port 1, and nobody is asked before init.
        assert!(refused("mongodb://app:xyzzy@localhost:1/db?options=xyzzy").contains("options"));
        open("mongodb://app:xyzzy@localhost:1/db").expect("valid");
        open("mongodb+srv://app:xyzzy@cluster.example.com/db").expect("valid");
    }

    #[cfg(not(feature = "redis"))]
    #[test]
    fn without_its_feature_redis_is_refused() {
        assert!(refused("redis://app:xyzzy@host/1").ends_with("--features redis"));
    }

    #[cfg(feature = "redis")]
    #[test]
    fn redis_is_opened_by_its_url() {
        // Nobody listens on port 1, and nobody is asked before init.
        for url in
            ["redis://app:xyzzy@localhost:1/2", "rediss+cluster://app:xyzzy@a:1,b", "redis+sentinel://a,b:1/main"]
        {
            assert!(refused(&format!("{url}?options=xyzzy")).contains("options"));
            open(url).expect("valid");
        }
    }
}
