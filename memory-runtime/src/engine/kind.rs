//! The one place that names the engines.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Error, Inspection, MemoryProvider, Result};
use migrations::Report;

use crate::Sandbox;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis", feature = "mongo"))]
use crate::claim::transient;

/// An engine with its settings.
#[async_trait]
pub(crate) trait Engine: Send + Sync {
    /// The provider; touches nothing before its `init`.
    fn open(&self) -> Result<Arc<dyn MemoryProvider>>;

    async fn migrate(&self) -> Result<Report>;

    async fn plan(&self) -> Result<Report>;

    async fn inspect(&self) -> Result<Inspection>;

    /// Removes the data, with the place that holds it.
    async fn remove(&self) -> Result<()>;

    /// Takes the place of this name beside its own.
    fn set_place(&mut self, name: &str) -> Result<()>;

    /// Takes over what a place beside its own is opened with.
    fn set(&mut self, sandbox: &Sandbox);
}

/// Reads the settings of a URL.
type Parse = fn(&str) -> Result<Box<dyn Engine>>;

/// What is known of an engine, compiled in or not.
#[derive(Debug)]
pub(super) struct Kind {
    /// The name in its `Health`, which also is that of its cargo feature.
    pub(super) name: &'static str,
    /// The name for people.
    pub(super) title: &'static str,
    pub(super) schemes: &'static [&'static str],
    /// Whether the URL names a file, and no server that asks for a password.
    pub(super) is_file: bool,
    /// Whether it keeps a history.
    pub(super) keeps_history: bool,
    /// The parameter that keeps the driver at the host of the URL, where it looks for others by itself.
    pub(super) one_host: Option<&'static str>,
    /// `None` when the engine was not compiled in.
    parse: Option<Parse>,
}

impl Kind {
    /// The settings of a URL of this engine.
    pub(super) fn engine(&self, url: &str) -> Result<Box<dyn Engine>> {
        let Self { name, title, parse, .. } = self;
        let parse = parse.ok_or_else(|| {
            Error::invalid(format!("this program was built without {title}: build it with --features {name}"))
        })?;
        parse(url)
    }
}

/// Each engine by the name of its feature, with its types and how it takes a place beside that of its URL.
macro_rules! engines {
    ($($name:literal {
        $library:ident: $config:ident, $memory:ident;
        $($field:ident: $value:expr),*;
        place($settings:ident, $place:ident) { $($set_place:tt)* }
    })*) => {
        /// Every engine that there is.
        pub(super) static KINDS: &[Kind] = &[$(Kind {
            name: $name,
            $($field: $value,)*
            #[cfg(feature = $name)]
            parse: Some(|url| Ok(Box::new($library::$config::from_url(url)?))),
            #[cfg(not(feature = $name))]
            parse: None,
        }),*];

        $(
            #[cfg(feature = $name)]
            #[async_trait]
            impl Engine for $library::$config {
                fn open(&self) -> Result<Arc<dyn MemoryProvider>> {
                    let mut config = self.clone();
                    if config.history.transient.is_empty() {
                        config.history.transient = transient()?;
                    }
                    Ok(Arc::new($library::$memory::open(config)?))
                }

                async fn migrate(&self) -> Result<Report> {
                    $library::migrate(self).await
                }

                async fn plan(&self) -> Result<Report> {
                    $library::plan(self).await
                }

                async fn inspect(&self) -> Result<Inspection> {
                    $library::inspect(self).await
                }

                async fn remove(&self) -> Result<()> {
                    $library::remove(self).await
                }

                fn set_place(&mut self, $place: &str) -> Result<()> {
                    let $settings = self;
                    $($set_place)*
                    Ok(())
                }

                fn set(&mut self, sandbox: &Sandbox) {
                    self.clock = Arc::clone(&sandbox.clock);
                    self.deadline = sandbox.deadline;
                    self.history = sandbox.history.clone();
                }
            }
        )*
    };
}

engines! {
    "sqlite" {
        memory_sqlite: SqliteConfig, SqliteMemory;
        title: "SQLite",
        schemes: &["sqlite"],
        is_file: true,
        keeps_history: true,
        one_host: None;
        place(config, name) {
            let memory_sqlite::Location::File(path) = &mut config.location else {
                return Err(Error::invalid("a database in memory has one handle only: name a file"));
            };
            let mut file = path.clone().into_os_string();
            file.push(format!("-{name}"));
            *path = file.into();
        }
    }
    "postgres" {
        memory_postgres: PostgresConfig, PostgresMemory;
        title: "PostgreSQL",
        schemes: &["postgres", "postgresql"],
        is_file: false,
        keeps_history: true,
        one_host: None;
        place(config, name) { config.namespace = name.to_owned(); }
    }
    "redis" {
        memory_redis: RedisConfig, RedisMemory;
        title: "Redis",
        schemes: &["redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"],
        is_file: false,
        keeps_history: true,
        one_host: None;
        place(config, name) { config.namespace = name.to_owned(); }
    }
    "mongo" {
        memory_mongo: MongoConfig, MongoMemory;
        title: "MongoDB",
        schemes: &["mongodb", "mongodb+srv"],
        is_file: false,
        keeps_history: true,
        one_host: Some("directConnection=true");
        place(config, name) { config.namespace = name.to_owned(); }
    }
}

#[cfg(test)]
mod tests {
    use memory_core::ErrorKind;

    use super::*;

    #[test]
    fn an_engine_that_was_not_compiled_in_is_refused_with_its_feature() {
        for kind in KINDS {
            let without = Kind { parse: None, ..*kind };
            let error = without.engine("x").err().expect("refused");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let (title, name) = (kind.title, kind.name);
            let expected = format!("this program was built without {title}: build it with --features {name}");
            assert_eq!(error.message(), expected);
        }
    }
}
