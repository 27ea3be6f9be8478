//! The vector keeper: it embeds records by following the feed, so that stores don't wait for a model (M5).

mod batch;
pub(crate) mod mark;
mod own;
mod refused;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Changes, Clock, Collection, Collections, Embedder, Embedding, Error, ErrorKind, MAX_VECTORS, MemoryProvider,
    MemoryQuery, Precision, RecordId, Result, Revision, SystemClock, TextHash, Timestamp, Vector, VectorModel, Watch,
    WatchFrom, Watched,
};
use batch::{Batch, Text};
use mark::Mark;
use refused::Refused;

/// Embeds memories and documents, and stores the vectors beside them.
///
/// A keeper follows the feed, and stores its position in a document of the namespace, so that any process resumes where
/// one was interrupted. It skips records that already have a vector of the model. It embeds no document of collections
/// whose names begin with `_`, except those that [`with_reserved`](Self::with_reserved) selects.
///
/// ```
/// use std::sync::Arc;
/// use memory_core::{Embedder, InMemory, MemoryProvider, NewMemory, Result, SpaceId, Timestamp, Trigger, VectorKeeper};
///
/// struct Lengths;
///
/// #[async_trait::async_trait]
/// impl Embedder for Lengths {
///     fn model(&self) -> &str { "lengths" }
///     fn width(&self) -> usize { 2 }
///     async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
///         Ok(texts.iter().map(|text| vec![1.0, text.len() as f32]).collect())
///     }
/// }
///
/// # #[tokio::main] async fn main() -> Result<()> {
/// let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
/// provider.init().await?;
/// let memory = NewMemory::new(SpaceId::parse("guild-1")?, Trigger::parse(r#""hello""#)?, Timestamp::from_millis(7)?);
/// let id = provider.store(memory).await?;
/// let kept = VectorKeeper::new(Arc::clone(&provider), Arc::new(Lengths)).catch_up().await?;
/// assert_eq!((kept.embedded, kept.refused), (1, 0));
/// assert!(provider.vectors(&[id.into()]).await?[0].is_some());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct VectorKeeper {
    provider: Arc<dyn MemoryProvider>,
    embedder: Arc<dyn Embedder>,
    clock: Arc<dyn Clock>,
    precision: Precision,
    takes_over: bool,
    reserved: Option<Reserved>,
}

/// What a keeper has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Kept {
    /// Number of vectors stored.
    pub embedded: usize,
    /// Number of texts that the model refused. Each is tried again an hour later at the earliest, then after twice as
    /// long each time, up to a week.
    pub refused: usize,
}

/// Reserved collections whose documents are embedded too.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    name: &'static str,
    are: fn(&Collection) -> bool,
}

/// When a keeper stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// At the end of what was there when it began.
    Reached,
    /// At the first error.
    Failure,
}

/// The changes that were pulled from a watch.
struct Pulled {
    batch: Batch,
    /// The error that ended the watch after these changes.
    failure: Option<Error>,
}

/// A batch of texts is full at this many bytes; its last text may exceed that.
const MAX_BYTES: usize = 1 << 20;
/// How many vectors one call stores, so that little time passes between the check whether their records have vectors
/// and the write.
const KEPT_TOGETHER: usize = 64;
/// The position is stored after this many changes, or after this time if that comes first. Changes that are read again
/// already have their vector.
const KEPT_EVERY: usize = 1_000;
const KEPT_AFTER: Duration = Duration::from_secs(60);
/// Without changes, the position is stored after this time, because the feed forgets old tokens.
const KEPT_IDLE: Duration = Duration::from_secs(3_600);
/// A text that every model can embed.
const KNOWN: &str = "a text";
/// Timeout of the model for a batch.
const MODEL_PATIENCE: Duration = Duration::from_secs(300);
/// How often refused texts are checked for being due.
const TRIED_EVERY: Duration = Duration::from_secs(60);
/// The pause after a temporary failure that followed progress. Without progress each pause is twice as long, up to the
/// longest.
const PAUSE: Duration = Duration::from_millis(500);
const MOST_PAUSE: Duration = Duration::from_secs(60);

impl VectorKeeper {
    /// The collection of the keepers' own documents: their positions, and the ids of records whose texts a model
    /// refused.
    pub const COLLECTION: &'static str = own::COLLECTION;

    /// Makes a keeper for this provider and model. The caller initialises the provider.
    pub fn new(provider: Arc<dyn MemoryProvider>, embedder: Arc<dyn Embedder>) -> Self {
        let (clock, precision) = (Arc::new(SystemClock), Precision::default());
        Self { provider, embedder, clock, precision, takes_over: false, reserved: None }
    }

    /// Sets the precision of the vectors, for the case that this keeper sets the model; compact by default. Ignored if
    /// the namespace already has the model.
    #[must_use]
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Replaces another model of the namespace when the first vector is made, or at the end of the feed. Without this,
    /// the keeper fails with `SchemaMismatch`.
    #[must_use]
    pub fn taking_over(mut self) -> Self {
        self.takes_over = true;
        self
    }

    /// Also embeds the documents of these reserved collections. `name` becomes part of the id of the document that
    /// stores the keeper's position (`feed-NAME`), so that keepers of different collections have separate positions.
    #[must_use]
    pub fn with_reserved(mut self, name: &'static str, are: fn(&Collection) -> bool) -> Self {
        self.reserved = Some(Reserved { name, are });
        self
    }

    /// Sets the clock, which decides when refused texts are tried again.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Embeds everything up to the end of the feed, and refused texts that are due.
    ///
    /// # Behavior
    /// - A text that the model refuses (it embeds another one) holds up no other, and is tried again later.
    /// - Any other failure ends the call. Stored vectors stay, and the next call resumes after them.
    /// - Fails with `SchemaMismatch` if the namespace has another model, also if another keeper sets it meanwhile: see
    ///   [`taking_over`](Self::taking_over). Fails with `Unsupported` on an engine that keeps no vectors.
    pub async fn catch_up(&self) -> Result<Kept> {
        let mut kept = Kept::default();
        self.follow(Until::Reached, &mut kept).await.map(|()| kept)
    }

    /// Embeds everything, then follows the feed for ever. Retries `Unavailable`, `Timeout` and retryable errors after
    /// 0.5 to 60 seconds; any other error ends it.
    pub async fn run(&self) -> Result<Infallible> {
        let mut pause = PAUSE;
        loop {
            let mut kept = Kept::default();
            let Err(error) = self.follow(Until::Failure, &mut kept).await else { continue };
            let may_pass = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) || error.is_retryable();
            if !may_pass {
                return Err(error);
            }
            pause = if kept.embedded > 0 { PAUSE } else { (pause * 2).min(MOST_PAUSE) };
            tracing::warn!(%error, "vectors wait");
            sleep(pause).await;
        }
    }

    /// Follows the feed; starts over if the feed has lost the changes after the mark.
    async fn follow(&self, until: Until, kept: &mut Kept) -> Result<()> {
        let mut begins_anew = false;
        loop {
            if begins_anew {
                // If marks are removed all the time, for example by a retention rule, the keeper must not loop without
                // a pause.
                sleep(PAUSE).await;
            }
            match self.attempt(begins_anew, until, kept).await {
                Err(error) if error.kind() == ErrorKind::FeedReset => {
                    tracing::info!("the feed has lost changes: every record is checked for its vector");
                    begins_anew = true;
                }
                ended => return ended,
            }
        }
    }

    async fn attempt(&self, begins_anew: bool, until: Until, kept: &mut Kept) -> Result<()> {
        let mut way = self.begin(begins_anew).await?;
        let mut changes = self.changes(&way.mark).await?;
        let ended = way.go(&mut changes, until, kept).await;
        if ended.is_err() && way.unmarked > 0 {
            // If this fails, some records are only examined again.
            let _ = way.put_mark().await;
        }
        ended
    }

    async fn begin(&self, begins_anew: bool) -> Result<Way<'_>> {
        let model = VectorModel::new(self.embedder.model(), self.embedder.width(), self.precision)?;
        let name = self.reserved.map_or("", |reserved| reserved.name);
        let mut mark = Mark::read(&*self.provider.documents(), name, &model).await?;
        let before = self.provider.vector_model().await?;
        let is_set = before.as_ref().is_some_and(|before| before.is_same(&model));
        if !is_set && before.is_some() && !self.takes_over {
            return Err(model.is_another());
        }
        // Vectors of this model may have been replaced by those of another one.
        if begins_anew || !is_set {
            mark.begin_anew();
        }
        let is_kept = mark.is_kept();
        let (unmarked, marked_at, again) = (0, Instant::now(), Again::Since(None));
        let mut way = Way { keeper: self, model, before, is_set, mark, unmarked, marked_at, again };
        if is_set && !is_kept {
            way.put_mark().await?;
        }
        Ok(way)
    }

    async fn changes(&self, mark: &Mark) -> Result<Changes> {
        let everything = Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().all())?;
        if let Some(token) = &mark.token {
            let watch = everything.clone().from(WatchFrom::Token(token.clone()));
            match self.provider.watch(&watch).await {
                // The token belongs to another namespace, from which the mark was copied.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {}
                changes => return changes,
            }
        }
        self.provider.watch(&everything.from(WatchFrom::Beginning)).await
    }

    /// Collects changes until the batch is full or no more are ready.
    async fn pull(&self, changes: &mut Changes, is_caught_up: bool, is_trying: bool) -> Pulled {
        let (count, max_text) = (self.embedder.batch().clamp(1, MAX_VECTORS), self.embedder.max_text());
        let mut batch = Batch::default();
        // Before the end of the feed a change is sure to come: at least the notice that the end was reached.
        let mut waits = !(is_caught_up && is_trying);
        loop {
            let next = match waits {
                true => changes.next().await,
                false => match changes.next().now_or_never() {
                    Some(next) => next,
                    None => return Pulled { batch, failure: None },
                },
            };
            waits = !is_caught_up;
            let failure = match next {
                Some(Ok(change)) => {
                    batch.add(change, max_text, |collection| self.embeds(collection));
                    None
                }
                Some(Err(error)) => Some(error),
                None => Some(Error::new(ErrorKind::Unavailable, "the watch has ended").retryable()),
            };
            let is_full = batch.texts.len() >= count || batch.bytes >= MAX_BYTES || batch.seen >= KEPT_EVERY;
            if failure.is_some() || is_full || batch.is_pause {
                return Pulled { batch, failure };
            }
        }
    }

    /// Embeds one text; the inner error is the model's refusal.
    async fn vector(&self, text: &String) -> Result<Result<Vector>> {
        let mut attempt = self.made(std::slice::from_ref(text)).await;
        // One retry, if the failure may have been temporary. A timeout is not retried: it would hold up the others for
        // minutes.
        if attempt.as_ref().is_err_and(|error| error.is_retryable() && error.kind() != ErrorKind::Timeout) {
            self.check_model().await?;
            attempt = self.made(std::slice::from_ref(text)).await;
        }
        if attempt.is_err() {
            self.check_model().await?;
        }
        let none = || Error::new(ErrorKind::Unexpected, "the model made no vector");
        Ok(attempt.and_then(|mut made| made.pop().ok_or_else(none)))
    }

    /// Fails unless the model embeds a known text, so that a failure is the text's own. The error of a text does not
    /// tell: some servers answer a text that is too long as if they were down, and a misconfigured model refuses every
    /// text.
    async fn check_model(&self) -> Result<()> {
        self.made(&[KNOWN.to_owned()]).await.map(drop)
    }

    /// Embeds texts; `Timeout` if the model does not answer in time.
    async fn made(&self, texts: &[String]) -> Result<Vec<Vector>> {
        let late = |_| Err(Error::new(ErrorKind::Timeout, "the embedder did not answer within 5 minutes").retryable());
        timeout(MODEL_PATIENCE, self.embedder.vectors(texts)).await.unwrap_or_else(late)
    }

    fn refused(&self, now: Timestamp) -> Refused<'_> {
        Refused { provider: &*self.provider, model: self.embedder.model(), now }
    }

    fn embeds(&self, collection: &Collection) -> bool {
        let is_named = || self.reserved.is_some_and(|reserved| (reserved.are)(collection));
        collection.as_str() != Self::COLLECTION && (!collection.is_reserved() || is_named())
    }
}

/// A keeper's run along the feed.
struct Way<'k> {
    keeper: &'k VectorKeeper,
    model: VectorModel,
    /// The namespace's model when the run began.
    before: Option<VectorModel>,
    /// Whether this model is the namespace's. It is set with the first vector, so that a model that is down takes
    /// nothing over.
    is_set: bool,
    mark: Mark,
    /// Number of changes handled since the mark was stored.
    unmarked: usize,
    marked_at: Instant,
    again: Again,
}

/// The state of trying refused texts again.
enum Again {
    /// All that were due have been tried; the time of the last check.
    Since(Option<Instant>),
    /// More may be due: those after this cursor that were due at this time.
    Behind(Timestamp, Option<String>),
}

impl Way<'_> {
    async fn go(&mut self, changes: &mut Changes, until: Until, kept: &mut Kept) -> Result<()> {
        let mut is_caught_up = false;
        loop {
            self.look_again();
            let is_trying = matches!(self.again, Again::Behind(..));
            let Pulled { batch, failure } = self.keeper.pull(changes, is_caught_up, is_trying).await;
            self.keep(batch.texts.into_values().collect(), kept).await?;
            self.unmarked += batch.seen;
            self.mark.token = batch.token.or(self.mark.token.take());
            if let Some(failure) = failure {
                return Err(failure);
            }
            if batch.own_gone.contains(self.mark.id()) {
                // Stored again, but only if the present mark is one that this keeper knows.
                self.put_mark().await?;
            }
            is_caught_up |= batch.is_reached;
            self.try_again(kept).await?;
            let is_through = is_caught_up && matches!(self.again, Again::Since(_));
            // A model that has refused everything takes nothing over.
            if is_through && (kept.embedded > 0 || kept.refused == 0) {
                self.set_model().await?;
            }
            let is_end = is_through && until == Until::Reached;
            if self.is_due(batch.is_reached, is_end) {
                self.put_mark().await?;
            }
            if is_end {
                return Ok(());
            }
        }
    }

    /// Embeds and stores the texts whose records have no vector; records the ones that the model refuses.
    async fn keep(&mut self, mut texts: Vec<Text>, kept: &mut Kept) -> Result<()> {
        if self.is_set {
            self.retain_without(&mut texts, |text| &text.record).await?;
        }
        if texts.is_empty() {
            return Ok(());
        }
        let (places, texts): (Vec<_>, Vec<_>) =
            texts.into_iter().map(|text| ((text.record, text.revision, text.texts), text.text)).unzip();
        let mut vectors = match self.keeper.made(&texts).await {
            Ok(vectors) => vectors.into_iter().map(Some).collect(),
            Err(_) => vec![None; texts.len()],
        };
        if vectors.iter().any(Option::is_none) {
            self.keeper.check_model().await?;
            // Each text by itself, so that a refused one holds up no other.
            for (((record, revision, _), text), vector) in places.iter().zip(&texts).zip(&mut vectors) {
                match self.keeper.vector(text).await? {
                    Ok(made) => *vector = Some(made),
                    Err(error) => {
                        tracing::warn!(?record, %error, "a record has no vector yet");
                        // At once, so that a keeper that starts over knows it.
                        self.keeper.refused(self.keeper.clock.now()).put(record, *revision).await?;
                        kept.refused += 1;
                    }
                }
            }
        }
        let embedding = |((record, revision, texts), vector): ((RecordId, Revision, TextHash), Option<Vector>)| {
            Some(Embedding { record, revision, texts: Some(texts), vector: vector? })
        };
        let embeddings: Vec<_> = places.into_iter().zip(vectors).filter_map(embedding).collect();
        if !embeddings.is_empty() {
            self.set_model().await?;
        }
        for some in embeddings.chunks(KEPT_TOGETHER) {
            let mut some = some.to_vec();
            // Another program may have stored vectors meanwhile.
            self.retain_without(&mut some, |embedding| &embedding.record).await?;
            if some.is_empty() {
                continue;
            }
            // If a record was changed meanwhile, the feed delivers it again.
            let done = self.keeper.provider.embed(&self.model, some).await?;
            kept.embedded += done.into_iter().filter(|is_kept| *is_kept).count();
        }
        Ok(())
    }

    /// Drops those whose records already have a vector of the model.
    async fn retain_without<T>(&self, all: &mut Vec<T>, record: impl Fn(&T) -> &RecordId) -> Result<()> {
        if all.is_empty() {
            return Ok(());
        }
        let records: Vec<_> = all.iter().map(|one| record(one).clone()).collect();
        let mut present = self.keeper.provider.vectors(&records).await?.into_iter();
        all.retain(|_| present.next().is_none_or(|present| present.is_none()));
        Ok(())
    }

    /// Starts a check for due texts, if the last one was long enough ago.
    fn look_again(&mut self) {
        if matches!(&self.again, Again::Since(last) if last.is_none_or(|last| last.elapsed() >= TRIED_EVERY)) {
            self.again = Again::Behind(self.keeper.clock.now(), None);
        }
    }

    /// Tries the next page of refused texts that are due: one batch at a time, so that new texts don't wait.
    async fn try_again(&mut self, kept: &mut Kept) -> Result<()> {
        let Again::Behind(now, cursor) = &self.again else { return Ok(()) };
        let (now, refused, embedder) = (*now, self.keeper.refused(*now), &self.keeper.embedder);
        let page = refused.due(embedder.batch().clamp(1, MAX_VECTORS), embedder.max_text(), cursor.as_deref()).await?;
        self.keep(page.texts, kept).await?;
        refused.remove(page.ids).await?;
        self.again = match page.next {
            Some(next) => Again::Behind(now, Some(next)),
            None => Again::Since(Some(Instant::now())),
        };
        Ok(())
    }

    /// Sets the namespace's model, unless it is set. `SchemaMismatch` if another model was set meanwhile.
    async fn set_model(&mut self) -> Result<()> {
        let VectorKeeper { provider, .. } = self.keeper;
        if self.is_set {
            return Ok(());
        }
        let present = provider.vector_model().await?;
        if !present.as_ref().is_some_and(|present| present.is_same(&self.model)) {
            if present != self.before {
                return Err(self.model.is_another());
            }
            provider.set_vector_model(&self.model).await?;
        }
        self.is_set = true;
        // At once: a removed mark tells this keeper if another model is set later.
        self.put_mark().await
    }

    /// Returns whether the mark is to be stored. The keeper's own writes appear in the feed too, and don't count.
    fn is_due(&self, is_reached: bool, is_end: bool) -> bool {
        let since = self.marked_at.elapsed();
        match self.unmarked {
            0 => is_reached && (!self.mark.has_token() || since >= KEPT_IDLE),
            count => is_end || count >= KEPT_EVERY || since >= KEPT_AFTER,
        }
    }

    async fn put_mark(&mut self) -> Result<()> {
        let VectorKeeper { provider, clock, .. } = self.keeper;
        // The mark of another model's keeper stays until that model is replaced.
        if !self.is_set {
            return Ok(());
        }
        // If the model has changed, records with vectors of the new model were skipped.
        if !provider.vector_model().await?.is_some_and(|present| present.is_same(&self.model)) {
            return Err(self.model.is_another());
        }
        self.mark.put(&*provider.documents(), &self.model, clock.now()).await?;
        (self.unmarked, self.marked_at) = (0, Instant::now());
        Ok(())
    }
}
