//! The task that follows the feed for all watches of a provider: it reads the end of the feed and waits for the engine,
//! as long as a watch is open.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::living::LivingWork;
use super::open::{Shared, after};
use super::progress::FeedProgress;
use super::tail::RECENT;
use crate::Result;
use crate::engine::session::Reader;
use crate::engine::{Access, Engine, FeedPage, FeedPosition, Timeline};

/// How long the task rests after each page, so that rapid changes wake the watches less often.
const REST: Duration = Duration::from_millis(10);
/// Maximum time that the task waits for the engine before it reads again, and the extra time for an engine that has not
/// returned by then: the server that it listens to may be silent while another one serves reads.
const LONGEST_WAIT: Duration = Duration::from_secs(8);
const OVERDUE: Duration = Duration::from_secs(2);
/// How long it waits after the engine failed to wait.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Starts the task at the end of the feed on a timeline, unless it runs already.
pub(super) fn follow<E: Engine>(shared: &Arc<Shared<E>>, end: &FeedPosition, on: &Timeline) {
    if shared.tail.begin(end, on) {
        tokio::spawn(read(Following(Arc::clone(shared)), end.clone(), on.clone()));
    }
}

impl<E: Engine> Shared<E> {
    /// Reads the next entries of the feed, and the timeline after that. Fails with `FeedReset` also if the feed does not
    /// have what was seen.
    pub(super) async fn changes(&self, feed: &FeedProgress, most: usize) -> Result<(FeedPage, Timeline)> {
        let asked = (feed.clone(), most);
        let read: LivingWork<E::Session, (FeedProgress, usize), _> = |reader, (feed, most)| {
            Box::pin(async move {
                feed.check_seen(reader).await?;
                Ok((reader.changes(&feed.after, *most).await?, reader.timeline().await?))
            })
        };
        let work = async { self.ready().await?.run(Access::ReadLatest, asked, read).await };
        self.gate.read("watch", work).await
    }

    /// Returns the end of the feed after a page was read on a timeline, and the timeline after that. The engine has left
    /// out the entries of records that entries up to there erase.
    pub(super) async fn end_behind(&self, page: &FeedPage, on: Timeline) -> Result<(FeedPosition, Timeline)> {
        if page.is_end {
            return Ok((page.reached.clone(), on));
        }
        let (end, on) = self.feed_end().await?;
        Ok((end.visible(), on))
    }
}

/// Held by the task. When the task ends, each watch reads the feed itself, and the first that finds nothing new starts
/// another task.
struct Following<E: Engine>(Arc<Shared<E>>);

impl<E: Engine> Drop for Following<E> {
    fn drop(&mut self) {
        self.0.tail.forget();
        if let Ok(open) = self.0.open() {
            open.engine.unwatched();
        }
        self.0.tail.wake();
    }
}

/// Reads the end of the feed until no watch is open, the provider is closed, the engine fails, or another timeline
/// begins. In the last two cases each watch finds out itself.
async fn read<E: Engine>(following: Following<E>, mut end: FeedPosition, on: Timeline) {
    let shared = &following.0;
    loop {
        let page = match shared.changes(&end.clone().into(), RECENT).await {
            Ok((page, now)) if now == on => page,
            _ => return,
        };
        if page.reached > end {
            let seen = match shared.end_behind(&page, on.clone()).await {
                Ok((seen, now)) if now == on => seen,
                _ => return,
            };
            end = page.reached.clone();
            shared.tail.add(page, seen);
            sleep(REST).await;
            continue;
        }
        let Ok(open) = shared.open() else { return };
        let changed = async {
            let changed = open.engine.changed(&end, after(LONGEST_WAIT));
            if let Ok(Err(_)) = timeout(LONGEST_WAIT + OVERDUE, changed).await {
                sleep(AFTER_FAILURE).await;
            }
        };
        tokio::select! {
            () = shared.tail.news.closed() => return,
            () = shared.tail.closing.notified() => return,
            () = changed => {}
        }
    }
}
