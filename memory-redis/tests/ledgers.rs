//! Ledgers of older schemas, in Redis.

use std::process::ExitCode;
use std::sync::Arc;

use conformance::server::TestServer;
use conformance::{Namespace, ledgers};
use memory_core::MemoryProvider;
use memory_redis::{RedisConfig, RedisMemory};

mod common;
use common::{Admin, Case, run};

fn main() -> ExitCode {
    let ledgers = [
        include_str!("../../conformance/ledgers/v1/redis.txt"),
        include_str!("../../conformance/ledgers/v1/redis-text.txt"),
    ];
    ledgers::run("redis", ledgers, goes_on)
}

fn goes_on(ledger: &str) -> Case {
    let server = TestServer::redis()?;
    let mut config = RedisConfig::from_url(server.url())?;
    config.namespace = Namespace::unique().name;
    run(async {
        Admin::of(server.url()).lay(ledger, &config.namespace).await?;
        assert_eq!(memory_redis::plan(&config).await?.before, 1);

        ledgers::check(async || Ok(Arc::new(RedisMemory::open(config.clone())?) as Arc<dyn MemoryProvider>)).await?;
        assert_eq!(memory_redis::inspect(&config).await?.missing, [""; 0]);
        Ok(memory_redis::remove(&config).await?)
    })
}
