//! The one place that names every engine.

use std::sync::Arc;

use memory_core::{Error, Inspection, MemoryProvider, Result};
#[cfg(feature = "mongo")]
use memory_mongo::{MongoConfig, MongoMemory};
#[cfg(feature = "postgres")]
use memory_postgres::{PostgresConfig, PostgresMemory};
#[cfg(feature = "redis")]
use memory_redis::{RedisConfig, RedisMemory};
#[cfg(feature = "sqlite")]
use memory_sqlite::{SqliteConfig, SqliteMemory};
use migrations::Report;

/// The provider that a URL names. Touches nothing before [`init`](MemoryProvider::init).
///
/// `InvalidInput` when the scheme is unknown, its engine was not compiled in, or the engine refuses the rest of the URL.
pub fn open(url: &str) -> Result<Arc<dyn MemoryProvider>> {
    match Engine::from_url(url)? {
        #[cfg(feature = "sqlite")]
        Engine::Sqlite(config) => Ok(Arc::new(SqliteMemory::open(config)?)),
        #[cfg(feature = "postgres")]
        Engine::Postgres(config) => Ok(Arc::new(PostgresMemory::open(*config)?)),
        #[cfg(feature = "mongo")]
        Engine::Mongo(config) => Ok(Arc::new(MongoMemory::open(*config)?)),
        #[cfg(feature = "redis")]
        Engine::Redis(config) => Ok(Arc::new(RedisMemory::open(*config)?)),
    }
}

/// Creates or migrates the schema, as [`init`](MemoryProvider::init) does, and tells which steps that took.
///
/// Refuses the URLs that [`open`] refuses; other errors are those of the engine.
pub async fn migrate(url: &str) -> Result<Report> {
    match Engine::from_url(url)? {
        #[cfg(feature = "sqlite")]
        Engine::Sqlite(config) => memory_sqlite::migrate(&config).await,
        #[cfg(feature = "postgres")]
        Engine::Postgres(config) => memory_postgres::migrate(&config).await,
        #[cfg(feature = "mongo")]
        Engine::Mongo(config) => memory_mongo::migrate(&config).await,
        #[cfg(feature = "redis")]
        Engine::Redis(config) => memory_redis::migrate(&config).await,
    }
}

/// Tells which steps [`migrate`] would take, and changes nothing.
///
/// Refuses the URLs that [`open`] refuses; other errors are those of the engine.
pub async fn plan(url: &str) -> Result<Report> {
    match Engine::from_url(url)? {
        #[cfg(feature = "sqlite")]
        Engine::Sqlite(config) => memory_sqlite::plan(&config).await,
        #[cfg(feature = "postgres")]
        Engine::Postgres(config) => memory_postgres::plan(&config).await,
        #[cfg(feature = "mongo")]
        Engine::Mongo(config) => memory_mongo::plan(&config).await,
        #[cfg(feature = "redis")]
        Engine::Redis(config) => memory_redis::plan(&config).await,
    }
}

/// Tells what of the schema is missing, how many bytes the data takes, and what time it is at the server; changes nothing.
///
/// Refuses the URLs that [`open`] refuses; other errors are those of the engine.
pub async fn inspect(url: &str) -> Result<Inspection> {
    Engine::from_url(url)?.inspect().await
}

/// Servers, sentinels and clusters, encrypted or not.
macro_rules! redis_schemes {
    () => {
        "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster" | "rediss+cluster"
    };
}

/// An engine that was compiled in, with its settings.
pub(crate) enum Engine {
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteConfig),
    // Boxed, as the settings of a server are several times as large.
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresConfig>),
    #[cfg(feature = "mongo")]
    Mongo(Box<MongoConfig>),
    #[cfg(feature = "redis")]
    Redis(Box<RedisConfig>),
}

impl Engine {
    pub(crate) fn from_url(url: &str) -> Result<Self> {
        match url.split_once(':').map(|(scheme, _)| scheme) {
            #[cfg(feature = "sqlite")]
            Some("sqlite") => SqliteConfig::from_url(url).map(Self::Sqlite),
            #[cfg(feature = "postgres")]
            Some("postgres" | "postgresql") => PostgresConfig::from_url(url).map(Box::new).map(Self::Postgres),
            #[cfg(feature = "mongo")]
            Some("mongodb" | "mongodb+srv") => MongoConfig::from_url(url).map(Box::new).map(Self::Mongo),
            #[cfg(feature = "redis")]
            Some(redis_schemes!()) => RedisConfig::from_url(url).map(Box::new).map(Self::Redis),
            scheme => Err(refusal(scheme)),
        }
    }

    pub(crate) async fn inspect(self) -> Result<Inspection> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(config) => memory_sqlite::inspect(&config).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(config) => memory_postgres::inspect(&config).await,
            #[cfg(feature = "mongo")]
            Self::Mongo(config) => memory_mongo::inspect(&config).await,
            #[cfg(feature = "redis")]
            Self::Redis(config) => memory_redis::inspect(&config).await,
        }
    }
}

/// Why no engine stands behind a scheme. Quotes nothing, since what looks like a scheme may be a part of a password.
fn refusal(scheme: Option<&str>) -> Error {
    let feature = match scheme {
        Some("sqlite") => "sqlite",
        Some("postgres" | "postgresql") => "postgres",
        Some("mongodb" | "mongodb+srv") => "mongo",
        Some(redis_schemes!()) => "redis",
        _ => {
            return Error::invalid(
                "a database URL begins with sqlite:, postgres://, postgresql://, redis://, mongodb:// or mongodb+srv://",
            );
        }
    };
    Error::invalid(format!("this program was built without the engine of the URL: build it with the feature {feature}"))
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

    #[test]
    fn an_engine_that_was_not_compiled_in_is_refused_with_its_feature() {
        for (scheme, feature) in [
            ("sqlite", "sqlite"),
            ("postgres", "postgres"),
            ("postgresql", "postgres"),
            ("mongodb", "mongo"),
            ("mongodb+srv", "mongo"),
            ("redis", "redis"),
            ("rediss+cluster", "redis"),
        ] {
            let error = refusal(Some(scheme));
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.message().ends_with(&format!("the feature {feature}")), "{error}");
        }
    }

    #[cfg(not(feature = "sqlite"))]
    #[test]
    fn without_its_feature_sqlite_is_refused() {
        assert!(refused("sqlite://xyzzy.db").ends_with("the feature sqlite"));
    }

    #[cfg(not(feature = "postgres"))]
    #[test]
    fn without_its_feature_postgres_is_refused() {
        for url in ["postgres://app:xyzzy@host/db", "postgresql://app:xyzzy@host/db"] {
            assert!(refused(url).ends_with("the feature postgres"));
        }
    }

    #[cfg(not(feature = "mongo"))]
    #[test]
    fn without_its_feature_mongo_is_refused() {
        for url in ["mongodb://app:xyzzy@host/db", "mongodb+srv://app:xyzzy@host/db"] {
            assert!(refused(url).ends_with("the feature mongo"));
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
        assert!(refused("redis://app:xyzzy@host/1").ends_with("the feature redis"));
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
