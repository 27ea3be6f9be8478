//! A place on an engine that nobody else uses, for a probe, a benchmark or a test that leaves nothing behind.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{Clock, Inspection, MemoryProvider, Result, TextIndex};
#[cfg(feature = "mongo")]
use memory_mongo::MongoMemory;
#[cfg(feature = "postgres")]
use memory_postgres::PostgresMemory;
#[cfg(feature = "redis")]
use memory_redis::RedisMemory;
#[cfg(feature = "sqlite")]
use memory_sqlite::{Location, SqliteMemory};

use crate::engine::Engine;

/// Where a provider keeps its data beside what a URL names, and what no URL says.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// Lower-case letters, digits and `_`, at most 48 bytes: the name of the schema or of the
    /// database, or the end of the name of the file.
    pub name: String,
    /// Where `updatedAt` comes from.
    pub clock: Arc<dyn Clock>,
    /// What text search covers.
    pub text_index: TextIndex,
    /// How long a call may take.
    pub deadline: Duration,
}

impl Sandbox {
    /// The provider of this place on the engine that a URL names. Touches nothing before `init`; what the URL itself names
    /// stays untouched.
    ///
    /// Refuses the URLs that [`open`](crate::open) refuses, and those of a database in memory, which has no second handle.
    pub fn open(&self, url: &str) -> Result<Arc<dyn MemoryProvider>> {
        match self.engine(url)? {
            #[cfg(feature = "sqlite")]
            Engine::Sqlite(mut config) => {
                (config.clock, config.text_index) = (Arc::clone(&self.clock), self.text_index);
                config.deadline = self.deadline;
                Ok(Arc::new(SqliteMemory::open(config)?))
            }
            #[cfg(feature = "postgres")]
            Engine::Postgres(mut config) => {
                (config.clock, config.text_index) = (Arc::clone(&self.clock), self.text_index);
                config.deadline = self.deadline;
                Ok(Arc::new(PostgresMemory::open(*config)?))
            }
            #[cfg(feature = "redis")]
            Engine::Redis(mut config) => {
                (config.clock, config.text_index) = (Arc::clone(&self.clock), self.text_index);
                config.deadline = self.deadline;
                Ok(Arc::new(RedisMemory::open(*config)?))
            }
            #[cfg(feature = "mongo")]
            Engine::Mongo(mut config) => {
                (config.clock, config.text_index) = (Arc::clone(&self.clock), self.text_index);
                config.deadline = self.deadline;
                Ok(Arc::new(MongoMemory::open(*config)?))
            }
        }
    }

    /// What [`inspect`](crate::inspect) tells of the place.
    pub async fn inspect(&self, url: &str) -> Result<Inspection> {
        self.engine(url)?.inspect().await
    }

    /// Removes the place with everything in it. No provider may be open on it.
    pub async fn remove(&self, url: &str) -> Result<()> {
        match self.engine(url)? {
            #[cfg(feature = "sqlite")]
            Engine::Sqlite(config) => memory_sqlite::remove(&config).await,
            #[cfg(feature = "postgres")]
            Engine::Postgres(config) => memory_postgres::remove(&config).await,
            #[cfg(feature = "redis")]
            Engine::Redis(config) => memory_redis::remove(&config).await,
            #[cfg(feature = "mongo")]
            Engine::Mongo(config) => memory_mongo::remove(&config).await,
        }
    }

    /// The engine of a URL with this place instead of its own.
    fn engine(&self, url: &str) -> Result<Engine> {
        match Engine::from_url(url)? {
            #[cfg(feature = "sqlite")]
            Engine::Sqlite(mut config) => {
                let Location::File(path) = &mut config.location else {
                    let message = "a database in memory has one handle only: name a file";
                    return Err(memory_core::Error::invalid(message));
                };
                let mut file = path.clone().into_os_string();
                file.push(format!("-{}", self.name));
                *path = file.into();
                Ok(Engine::Sqlite(config))
            }
            #[cfg(feature = "postgres")]
            Engine::Postgres(mut config) => {
                config.namespace.clone_from(&self.name);
                Ok(Engine::Postgres(config))
            }
            #[cfg(feature = "redis")]
            Engine::Redis(mut config) => {
                config.namespace.clone_from(&self.name);
                Ok(Engine::Redis(config))
            }
            #[cfg(feature = "mongo")]
            Engine::Mongo(mut config) => {
                config.namespace.clone_from(&self.name);
                Ok(Engine::Mongo(config))
            }
        }
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use memory_core::{DEFAULT_DEADLINE, ErrorKind, SystemClock};

    use super::*;

    fn sandbox() -> Sandbox {
        let (clock, text_index) = (Arc::new(SystemClock), TextIndex::Documents);
        Sandbox { name: "t_1".to_owned(), clock, text_index, deadline: DEFAULT_DEADLINE }
    }

    #[tokio::test]
    async fn a_sandbox_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite://{}", folder.path().join("memory.db").display());
        let provider = sandbox().open(&url).expect("valid");
        provider.init().await.expect("a new file");
        assert!(folder.path().join("memory.db-t_1").exists());
        provider.shutdown().await.expect("closes");
        sandbox().remove(&url).await.expect("removed");
        sandbox().remove(&url).await.expect("nothing to remove");
        assert_eq!(folder.path().read_dir().expect("the folder").count(), 0);
    }

    #[test]
    fn memory_has_no_sandbox() {
        let refused = sandbox().open("sqlite::memory:").expect_err("one handle only");
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    }
}
