//! Trouble between the engine and its server: what was acknowledged is there, once, and the provider works again by itself.

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
    [connection::cases(), cuts::cases(), crash::cases()].concat()
}

/// How long a provider may take to work again after the trouble is over: more than the minute for which a server keeps the locks of
/// a transaction that was cut off.
const PATIENCE: Duration = Duration::from_secs(90);

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A provider whose server is behind a proxy.
struct BehindProxy {
    proxy: Proxy,
    provider: Arc<dyn MemoryProvider>,
    /// Another handle on the same data, past the proxy.
    direct: Arc<dyn MemoryProvider>,
}

impl BehindProxy {
    /// The deadline of the stage is that of the provider behind the proxy, unless the machine is too busy to open one within it;
    /// the other handle has time. Neither may a connection be there within the time for it.
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

    /// Ends the trouble, and waits until the provider works again.
    async fn recover(&self) -> Result<()> {
        self.proxy.set(Fault::None);
        works_again(&*self.provider).await
    }
}

/// What the runner made sure of: cases with such needs run on no other harness.
fn faults(stage: &Stage) -> &dyn Faults {
    stage.harness().faults().expect("a harness with a server")
}

/// Waits until a provider stores, reads, and is well; the last error when it does not in good time.
async fn works_again(provider: &dyn MemoryProvider) -> Result<()> {
    in_good_time(|| attempt(provider)).await
}

/// Tries until it succeeds; the last error when it does not in good time.
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
    // What is late is told by the error of the last attempt.
    let _ = tokio::time::timeout(PATIENCE, attempts).await;
    last
}

async fn attempt(provider: &dyn MemoryProvider) -> Result<()> {
    let id = provider.store(new_memory("works-again", 1)).await?;
    provider.get(id).await?;
    provider.check_health().await.map(drop)
}
