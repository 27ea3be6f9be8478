//! Ledgers of older schemas, in Redis.

use std::process::ExitCode;
use std::sync::Arc;

use conformance::server::{TestServer, trial};
use conformance::{Namespace, ledgers};
use libtest_mimic::Arguments;
use memory_core::{MemoryProvider, TextIndex};
use memory_redis::{RedisConfig, RedisMemory};

mod common;
use common::{Admin, Case, run};

fn main() -> ExitCode {
    let trials = vec![
        trial("redis::a_ledger_of_version_1_goes_on", || {
            goes_on(TextIndex::Documents, include_str!("../../conformance/ledgers/v1/redis.txt"))
        }),
        trial("redis::a_ledger_of_version_1_with_words_goes_on", || {
            goes_on(TextIndex::All, include_str!("../../conformance/ledgers/v1/redis-text.txt"))
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn goes_on(text_index: TextIndex, ledger: &str) -> Case {
    let server = TestServer::redis()?;
    let mut config = RedisConfig::from_url(server.url())?;
    config.namespace = Namespace::unique().name;
    run(async {
        Admin::of(server.url()).lay(ledger, &config.namespace).await?;
        assert_eq!(memory_redis::plan(&config).await?.before, 1);

        let open = async |text_index| {
            let mut config = config.clone();
            config.text_index = text_index;
            Ok(Arc::new(RedisMemory::open(config)?) as Arc<dyn MemoryProvider>)
        };
        ledgers::check(text_index, open).await?;
        assert_eq!(memory_redis::inspect(&config).await?.missing, [""; 0]);
        Ok(memory_redis::remove(&config).await?)
    })
}
