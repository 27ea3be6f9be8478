//! The resource subscriptions of a session.

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

/// The most subscriptions of a session.
pub(super) const MAX_SUBSCRIPTIONS: usize = 16;
/// The least time between two notifications of a resource, since the client reads the resource again after each.
pub(super) const REST: Duration = Duration::from_millis(100);

/// The subscriptions of a session, by URI. They end when the session ends.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Mutex<HashMap<String, AbortOnDropHandle<()>>>);

impl Subscriptions {
    /// Whether the session has subscribed to this resource.
    pub(super) fn has(&self, uri: &str) -> bool {
        self.all().contains_key(uri)
    }

    /// Starts to notify the client of these changes, until it unsubscribes or does not answer for `patience`. Fails if the session has as
    /// many subscriptions as it may.
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

/// Notifies a client of each change of a resource, and pings it every `patience`. Each notification keeps the session alive, so without
/// pings the session of a client that is gone would last as long as there are changes.
async fn tell(uri: String, mut updates: Updates, peer: Peer<RoleServer>, patience: Duration) {
    let mut question = Instant::now() + patience;
    loop {
        {
            // After a ping, the same future is awaited further: it must not be dropped, and may wait long for an engine that is down.
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

/// Whether the client answers a ping, with any answer.
async fn is_there(peer: &Peer<RoleServer>, patience: Duration) -> bool {
    let question = peer.send_request(ServerRequest::PingRequest(PingRequest::default()));
    matches!(timeout(patience, question).await, Ok(Ok(_) | Err(ServiceError::McpError(_))))
}
