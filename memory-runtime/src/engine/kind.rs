//! The table of the engines: the properties, the configuration and the sandbox of each.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::{Clock, Error, HistorySettings, Inspection, MemoryProvider, Result};
use migrations::Report;

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis", feature = "mongo"))]
use crate::claim::transient;

/// An engine with its settings.
#[async_trait]
pub(crate) trait Engine: Send + Sync {
    /// Returns the provider, which touches nothing before its `init`.
    fn open(&self) -> Result<Arc<dyn MemoryProvider>>;

    async fn migrate(&self) -> Result<Report>;

    async fn plan(&self) -> Result<Report>;

    async fn inspect(&self) -> Result<Inspection>;

    /// Removes the data, and the file or namespace that holds it.
    async fn remove(&self) -> Result<()>;

    /// Switches to another file or namespace, named after this name, beside the one that the URL names.
    fn set_place(&mut self, name: &str) -> Result<()>;

    /// Replaces these settings, whatever the URL says.
    fn set(&mut self, clock: Arc<dyn Clock>, deadline: Duration, history: HistorySettings);
}

/// Parses the settings in a URL.
type Parse = fn(&str) -> Result<Box<dyn Engine>>;

/// The facts about an engine, whether it is compiled in or not.
#[derive(Debug)]
pub(super) struct Kind {
    /// The engine's name in `Health`, which is also the name of its cargo feature.
    pub(super) name: &'static str,
    /// The name to show to people.
    pub(super) title: &'static str,
    pub(super) schemes: &'static [&'static str],
    /// Whether the URL names a file, and not a server.
    pub(super) is_file: bool,
    /// Whether the engine keeps a history.
    pub(super) keeps_history: bool,
    /// The URL parameter that stops a driver from discovering other hosts; `None` if the driver does not discover any.
    pub(super) one_host: Option<&'static str>,
    /// `None` if the engine was not compiled in.
    parse: Option<Parse>,
}

impl Kind {
    /// Parses the settings in a URL of this engine.
    pub(super) fn engine(&self, url: &str) -> Result<Box<dyn Engine>> {
        let Self { name, title, parse, .. } = self;
        let parse = parse.ok_or_else(|| {
            Error::invalid(format!("this program was built without {title}: build it with --features {name}"))
        })?;
        parse(url)
    }
}

/// Defines the engines: for each its cargo feature, its crate, its configuration, and how it switches to a sandbox.
macro_rules! engines {
    ($($name:literal {
        $library:ident: $config:ident;
        $($field:ident: $value:expr),*;
        place($settings:ident, $place:ident) { $($set_place:tt)* }
    })*) => {
        /// All engines.
        pub(super) static KINDS: &[Kind] = &[$(Kind {
            name: $name,
            $($field: $value,)*
            #[cfg(feature = $name)]
            parse: Some(|url| {
                let mut config = $library::$config::from_url(url)?;
                if config.history.transient.is_empty() {
                    config.history.transient = transient()?;
                }
                Ok(Box::new(config))
            }),
            #[cfg(not(feature = $name))]
            parse: None,
        }),*];

        $(
            #[cfg(feature = $name)]
            #[async_trait]
            impl Engine for $library::$config {
                fn open(&self) -> Result<Arc<dyn MemoryProvider>> {
                    $library::open(self.clone())
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

                fn set(&mut self, clock: Arc<dyn Clock>, deadline: Duration, history: HistorySettings) {
                    (self.clock, self.deadline, self.history) = (clock, deadline, history);
                }
            }
        )*
    };
}

engines! {
    "sqlite" {
        memory_sqlite: SqliteConfig;
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
        memory_postgres: PostgresConfig;
        title: "PostgreSQL",
        schemes: &["postgres", "postgresql"],
        is_file: false,
        keeps_history: true,
        one_host: None;
        place(config, name) { config.namespace = name.to_owned(); }
    }
    "redis" {
        memory_redis: RedisConfig;
        title: "Redis",
        schemes: &["redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"],
        is_file: false,
        keeps_history: true,
        one_host: None;
        place(config, name) { config.namespace = name.to_owned(); }
    }
    "mongo" {
        memory_mongo: MongoConfig;
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
