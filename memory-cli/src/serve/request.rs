//! What the guard leaves in the extensions of a request.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tracing::Span;

use super::limits::Place;

/// The span of a request, in its extensions, for work in other tasks.
#[derive(Debug, Clone)]
pub(crate) struct RequestSpan(pub(crate) Span);

/// The concurrency permit of a request, in its extensions. It is released when the request is answered or its client disconnects, even if
/// the extensions are kept longer.
#[derive(Debug, Clone)]
pub(crate) struct RequestPlace(Weak<Mutex<Option<Place>>>);

impl RequestPlace {
    pub(crate) fn new(place: &Arc<Mutex<Option<Place>>>) -> Self {
        Self(Arc::downgrade(place))
    }

    /// Releases the permit early, for a request that only waits from then on.
    pub(crate) fn give_back(&self) {
        if let Some(place) = self.0.upgrade() {
            place.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}
