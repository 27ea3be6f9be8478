//! The changes of a resource.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use memory_core::{Change, ChangeKind, Changes, Error, ErrorKind, MemoryProvider, Result, Watch, WatchToken, Watched};
use rmcp::ErrorData;
use tokio::time::sleep;

use super::resources;
use crate::serve::access::Access;
use crate::serve::limits::Place;
use crate::serve::metrics::Counted;
use crate::serve::state::Server;

/// The pause before a failed watch is restarted.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The changes of a resource, as far as the caller may read it. The value holds a watch permit of the server.
pub(super) struct Updates {
    provider: Arc<dyn MemoryProvider>,
    watch: Watch,
    changes: Changes,
    /// The token after which the watch continues.
    token: WatchToken,
    has_changed: bool,
    _place: Place,
    _open: Counted,
}

impl Updates {
    /// Begins to watch from now on.
    pub(super) async fn begin(server: &Server, access: &Access, uri: &str) -> Result<Self, ErrorData> {
        let not_found = || ErrorData::resource_not_found("there is no resource of this URI", None);
        let query = access.confine(resources::query(uri).ok_or_else(not_found)?);
        let watch = Watch::new(Watched::Memories, query);
        let watch = watch.map_err(|error| ErrorData::invalid_params(error.message().to_owned(), None))?;
        let place = server.limits.watches.take(&access.name).ok_or_else(|| {
            ErrorData::internal_error("the limit of open watches is reached: end one, or try again later", None)
        })?;
        let provider = Arc::clone(&server.provider);
        let begun = begin(&*provider, &watch).await;
        let (changes, token) = begun.map_err(|error| ErrorData::internal_error(error.message().to_owned(), None))?;
        let _open = server.metrics.watch();
        Ok(Self { provider, watch, changes, token, has_changed: false, _place: place, _open })
    }

    /// Waits until something has changed since the last call; changes that are ready together count once. Do not call it again after its
    /// future was dropped. Fails with `Closed` when the server ends, and with errors that a new watch would meet again.
    pub(super) async fn changed(&mut self) -> Result<()> {
        while !self.has_changed {
            let change = self.changes.next().await;
            self.take(change).await?;
        }
        while let Some(change) = self.changes.next().now_or_never() {
            self.take(change).await?;
        }
        self.has_changed = false;
        Ok(())
    }

    async fn take(&mut self, change: Option<Result<Change>>) -> Result<()> {
        match change.unwrap_or_else(|| Err(ended())) {
            Ok(Change { token, kind }) => {
                self.token = token;
                self.has_changed |= !matches!(kind, ChangeKind::Reached | ChangeKind::Progress);
                Ok(())
            }
            Err(error) => self.go_on(error).await,
        }
    }

    /// Restarts the watch after an error, as soon as possible. If the feed has lost changes, anything may have changed.
    async fn go_on(&mut self, mut error: Error) -> Result<()> {
        loop {
            let begun = match error.kind() {
                ErrorKind::Closed
                | ErrorKind::InvalidInput
                | ErrorKind::SchemaMismatch
                | ErrorKind::Unauthorized
                | ErrorKind::Unsupported => return Err(error),
                ErrorKind::FeedReset => {
                    self.has_changed = true;
                    begin(&*self.provider, &self.watch).await
                }
                _ => {
                    sleep(AFTER_FAILURE).await;
                    let watch = self.watch.clone().from(self.token.clone().into());
                    self.provider.watch(&watch).await.map(|changes| (changes, self.token.clone()))
                }
            };
            match begun {
                Ok(begun) => {
                    (self.changes, self.token) = begun;
                    return Ok(());
                }
                Err(again) => {
                    // Otherwise a feed that is reset again and again would be asked without a pause.
                    if again.kind() == ErrorKind::FeedReset {
                        sleep(AFTER_FAILURE).await;
                    }
                    error = again;
                }
            }
        }
    }
}

/// Begins a watch from now on, and returns its first token.
async fn begin(provider: &dyn MemoryProvider, watch: &Watch) -> Result<(Changes, WatchToken)> {
    let mut changes = provider.watch(watch).await?;
    match changes.next().await {
        Some(first) => Ok((changes, first?.token)),
        None => Err(ended()),
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::Unexpected, "the feed has ended")
}
