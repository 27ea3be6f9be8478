//! Faults between the engine and its server: acknowledged writes are there, once, and the provider works again by itself.

mod attempt;
mod client;
mod connection;
mod crash;
mod cuts;

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::{DEFAULT_DEADLINE, ErrorKind, MemoryProvider, Result};

use crate::case::{Case, Stage};
use crate::fault::{Fault, Faults, Proxy};
use crate::fixture::new_memory;

/// The cases of this chapter.
pub(crate) fn cases() -> Vec<Case> {
    [cuts::cases(), connection::cases(), crash::cases()].concat()
}

/// How long a provider may take to work again after a fault: longer than the minute for which a server keeps the locks of a transaction
/// whose connection was cut.
const PATIENCE: Duration = Duration::from_secs(90);

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A provider whose server is behind a proxy.
struct BehindProxy {
    proxy: Proxy,
    provider: Arc<dyn MemoryProvider>,
    /// Another handle on the same data, without the proxy.
    direct: Arc<dyn MemoryProvider>,
}

impl BehindProxy {
    /// Opens both handles. The provider behind the proxy has the deadline of the stage, which is doubled while a busy machine fails to open
    /// it in time. The direct handle has the default deadline. A refused connection is tried again within [`PATIENCE`].
    async fn open(stage: &Stage) -> std::result::Result<Self, Error> {
        let direct = stage.clone().with_deadline(DEFAULT_DEADLINE).open().await?;
        let proxy = Proxy::before(faults(stage).url()).await?;
        let (mut namespace, start) = (stage.namespace().clone(), Instant::now());
        loop {
            let provider = faults(stage).open(proxy.url(), &namespace).await?;
            match provider.init().await {
                Ok(()) => return Ok(Self { proxy, provider, direct }),
                Err(error) if error.kind() == ErrorKind::Timeout && namespace.deadline < DEFAULT_DEADLINE => {
                    namespace.deadline *= 2;
                }
                Err(error) if error.kind() == ErrorKind::Unavailable && start.elapsed() < PATIENCE => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends the fault, and waits until the provider works again.
    async fn recover(&self) -> Result<()> {
        self.proxy.set(Fault::None);
        works_again(&*self.provider).await
    }
}

/// The faults of the harness. The runner has checked that it has them: cases with such needs run on no other harness.
fn faults(stage: &Stage) -> &dyn Faults {
    stage.harness().faults().expect("a harness with a server")
}

/// Waits until a provider stores, reads and is healthy. Fails with its last error if it does not within [`PATIENCE`].
async fn works_again(provider: &dyn MemoryProvider) -> Result<()> {
    in_good_time(|| attempt(provider)).await
}

/// Repeats an attempt until it succeeds. Fails with the last error if it does not within [`PATIENCE`].
async fn in_good_time<F: Future<Output = Result<()>>>(attempt: impl Fn() -> F) -> Result<()> {
    let mut last = Ok(());
    let attempts = async {
        loop {
            last = attempt().await;
            if last.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // A timeout is reported by the error of the last attempt.
    let _ = tokio::time::timeout(PATIENCE, attempts).await;
    last
}

async fn attempt(provider: &dyn MemoryProvider) -> Result<()> {
    let id = provider.store(new_memory("works-again", 1)).await?;
    provider.get(id).await?;
    provider.check_health().await.map(drop)
}
