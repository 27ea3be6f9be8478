//! The resources whose changes a session is told of.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{PingRequest, ResourceUpdatedNotificationParam, ServerRequest};
use rmcp::service::ServiceError;
use rmcp::{ErrorData, Peer, RoleServer};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::updates::Updates;

/// How many resources a session is told of.
pub(super) const MAX_SUBSCRIPTIONS: usize = 16;
/// How long a client is told nothing more of a resource after it was told of it, since it reads it anew each time.
pub(super) const REST: Duration = Duration::from_millis(100);

/// The subscriptions of a session, by URI. They end with it.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Mutex<HashMap<String, AbortOnDropHandle<()>>>);

impl Subscriptions {
    /// Whether the session is told of this resource.
    pub(super) fn has(&self, uri: &str) -> bool {
        self.all().contains_key(uri)
    }

    /// Tells the client of these changes until it takes that back, or gives no sign of life for so long.
    pub(super) fn add(
        &self,
        uri: String,
        updates: Updates,
        peer: Peer<RoleServer>,
        patience: Duration,
    ) -> Result<(), ErrorData> {
        let mut all = self.all();
        if all.len() >= MAX_SUBSCRIPTIONS && !all.contains_key(&uri) {
            let sentence = format!("a session subscribes to {MAX_SUBSCRIPTIONS} resources at most");
            return Err(ErrorData::invalid_request(sentence, None));
        }
        let task = tokio::spawn(tell(uri.clone(), updates, peer, patience));
        all.insert(uri, AbortOnDropHandle::new(task));
        Ok(())
    }

    /// Ends the subscription to a resource, if there is one.
    pub(super) fn remove(&self, uri: &str) {
        self.all().remove(uri);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, AbortOnDropHandle<()>>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, task| !task.is_finished());
        all
    }
}

/// What is told counts as a sign of life of the session, so the client is asked for one of its own: else the session of one that is
/// gone would go on as long as something changes.
async fn tell(uri: String, mut updates: Updates, peer: Peer<RoleServer>, patience: Duration) {
    let mut question = Instant::now() + patience;
    loop {
        {
            // It goes on where it was behind a question: it may be waiting for an engine that is away for long.
            let mut changed = pin!(updates.changed());
            loop {
                tokio::select! {
                    changed = &mut changed => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    () = sleep_until(question) => {
                        if !is_there(&peer, patience).await {
                            return;
                        }
                        question = Instant::now() + patience;
                    }
                }
            }
        }
        let told = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri.as_str()));
        if !matches!(timeout(patience, told).await, Ok(Ok(()))) {
            return;
        }
        sleep(REST).await;
    }
}

/// Whether the client answers, whatever it answers.
async fn is_there(peer: &Peer<RoleServer>, patience: Duration) -> bool {
    let question = peer.send_request(ServerRequest::PingRequest(PingRequest::default()));
    matches!(timeout(patience, question).await, Ok(Ok(_) | Err(ServiceError::McpError(_))))
}
