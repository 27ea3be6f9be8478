//! Who makes the vectors of records: it follows the feed behind the stores, which wait for no model (M5).

mod batch;
pub(crate) mod mark;
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

/// Makes the vectors of memories and documents, and keeps them beside these.
///
/// It goes along the feed, and keeps how far it is in a document of the namespace, so that it goes on where it was cut, in whichever process. What
/// has a vector of the model is not embedded again. Of collections whose names begin with `_` it embeds none, but for those that
/// [`with_reserved`](Self::with_reserved) names.
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
    /// How many vectors are kept.
    pub embedded: usize,
    /// How many texts the model refused. Each is tried again: an hour later at the earliest, then after twice as long each time, up to a week.
    pub refused: usize,
}

/// Collections with reserved names of which the documents are embedded, too.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    name: &'static str,
    are: fn(&Collection) -> bool,
}

/// How far a keeper goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// To the end of what was there when it began.
    Reached,
    /// On and on.
    Failure,
}

/// How many bytes of texts a batch has at most, but for its last one.
const MAX_BYTES: usize = 1 << 20;
/// How many vectors are kept in one call: little time passes since it was looked whether their records have some.
const KEPT_TOGETHER: usize = 64;
/// After how many changes, and after how long, it is kept how far the keeper is. What comes again has its vector then.
const KEPT_EVERY: usize = 1_000;
const KEPT_AFTER: Duration = Duration::from_secs(60);
/// After how long without a change it is kept how far the feed is, which forgets what is old.
const KEPT_IDLE: Duration = Duration::from_secs(3_600);
/// A text of which any model makes a vector.
const KNOWN: &str = "a text";
/// How long a model has for a batch.
const MODEL_PATIENCE: Duration = Duration::from_secs(300);
/// How often it is looked for what is due again.
const TRIED_EVERY: Duration = Duration::from_secs(60);
/// How long to wait behind a failure that may pass, the first time and at most.
const PAUSE: Duration = Duration::from_millis(500);
const MOST_PAUSE: Duration = Duration::from_secs(60);

impl VectorKeeper {
    /// The collection of its own documents: how far it is, and what the model has refused.
    pub const COLLECTION: &'static str = "_embed";

    /// A keeper that makes vectors by this model. The provider is initialised by whoever holds it.
    pub fn new(provider: Arc<dyn MemoryProvider>, embedder: Arc<dyn Embedder>) -> Self {
        let (clock, precision) = (Arc::new(SystemClock), Precision::default());
        Self { provider, embedder, clock, precision, takes_over: false, reserved: None }
    }

    /// How vectors are kept if this keeper sets the model; compact by default. Ignored where the namespace has the model already.
    #[must_use]
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Replaces another model by this one, with the first vector that it makes, or at the end of the feed. Without this, `SchemaMismatch`.
    #[must_use]
    pub fn taking_over(mut self) -> Self {
        self.takes_over = true;
        self
    }

    /// Also embeds the documents of these reserved collections. `name` becomes part of the id of the document that holds the keeper's place
    /// (`feed-NAME`), so keepers of different collections each have a place of their own.
    #[must_use]
    pub fn with_reserved(mut self, name: &'static str, are: fn(&Collection) -> bool) -> Self {
        self.reserved = Some(Reserved { name, are });
        self
    }

    /// With another clock; it tells when what was refused is tried again.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Embeds what is there, to the end of the feed, and what was refused and is due again.
    ///
    /// # Behavior
    /// - What the model refuses holds up no other, and is tried again later: of which it makes no vector while it makes one of another text.
    /// - Any other failure ends it. What was kept until then stays, and the next call goes on behind it.
    /// - `SchemaMismatch` where the namespace has the vectors of another model, also when another keeper sets it meanwhile: see
    ///   [`taking_over`](Self::taking_over). `Unsupported` on an engine that keeps no vectors.
    pub async fn catch_up(&self) -> Result<Kept> {
        let mut kept = Kept::default();
        self.follow(Until::Reached, &mut kept).await.map(|()| kept)
    }

    /// Embeds what is there, and goes on behind the feed for ever. `Unavailable`, `Timeout` and retryable errors are tried again after 0.5 to 60
    /// seconds; any other ends it.
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

    /// Follows the feed, also where that has lost what came behind the mark.
    async fn follow(&self, until: Until, kept: &mut Kept) -> Result<()> {
        let mut begins_anew = false;
        loop {
            if begins_anew {
                // Who removes marks all the time, as a rule of retention does, must not keep the machine busy.
                sleep(PAUSE).await;
            }
            match self.attempt(begins_anew, until, kept).await {
                Err(error) if error.kind() == ErrorKind::FeedReset => {
                    tracing::info!("the feed has lost changes: every record is looked at for its vector");
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
            // Without it some records are looked at once more.
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
        // Records may have vectors of the other model in the place of those that were made before.
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
                // A token of another namespace, from which the mark was copied.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {}
                changes => return changes,
            }
        }
        self.provider.watch(&everything.from(WatchFrom::Beginning)).await
    }

    /// Takes changes until a batch is full, or there is nothing more to wait for; and what the watch has ended with, behind these.
    async fn pull(&self, changes: &mut Changes, is_caught_up: bool, is_trying: bool) -> (Batch, Option<Error>) {
        let (count, max_text) = (self.embedder.batch().clamp(1, MAX_VECTORS), self.embedder.max_text());
        let mut batch = Batch::default();
        // Before the end more is sure to come, if only that all was told.
        let mut waits = !(is_caught_up && is_trying);
        loop {
            let next = match waits {
                true => changes.next().await,
                false => match changes.next().now_or_never() {
                    Some(next) => next,
                    None => return (batch, None),
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
                return (batch, failure);
            }
        }
    }

    /// The vector of a text, or why the model refuses it.
    async fn vector(&self, text: &String) -> Result<Result<Vector>> {
        let mut attempt = self.made(std::slice::from_ref(text)).await;
        // One more, where the failure may have passed. One that takes minutes would hold up the others for as long again.
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

    /// Fails unless the model makes vectors at all, so that a failure is of the texts. The error of a text tells that badly: some servers answer
    /// one that is too long for them as if they were down, and a model that is not what it says fails for every text as if it refused that.
    async fn check_model(&self) -> Result<()> {
        self.made(&[KNOWN.to_owned()]).await.map(drop)
    }

    /// What the model makes, if it answers at all.
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

/// A keeper on its way along the feed.
struct Way<'k> {
    keeper: &'k VectorKeeper,
    model: VectorModel,
    /// The model that the namespace had at the beginning of the way.
    before: Option<VectorModel>,
    /// Whether the model is that of the namespace. It becomes that with its first vector, so that one which is down takes nothing over.
    is_set: bool,
    mark: Mark,
    /// How many changes are done with and not behind the mark that is kept.
    unmarked: usize,
    marked_at: Instant,
    again: Again,
}

/// Where a keeper is with what was refused.
enum Again {
    /// It has tried all that was due, when it looked last.
    Since(Option<Instant>),
    /// Behind this cursor more may be due that was at this time.
    Behind(Timestamp, Option<String>),
}

impl Way<'_> {
    async fn go(&mut self, changes: &mut Changes, until: Until, kept: &mut Kept) -> Result<()> {
        let mut is_caught_up = false;
        loop {
            self.look_again();
            let is_trying = matches!(self.again, Again::Behind(..));
            let (batch, failure) = self.keeper.pull(changes, is_caught_up, is_trying).await;
            self.keep(batch.texts.into_values().collect(), kept).await?;
            self.unmarked += batch.seen;
            self.mark.token = batch.token.or(self.mark.token.take());
            if let Some(failure) = failure {
                return Err(failure);
            }
            if batch.own_gone.contains(self.mark.id()) {
                // It is put only in the place of the one that this keeper knows.
                self.put_mark().await?;
            }
            is_caught_up |= batch.is_reached;
            self.try_again(kept).await?;
            let is_through = is_caught_up && matches!(self.again, Again::Since(_));
            // One that has refused everything takes nothing over.
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

    /// Keeps the vectors of texts whose records have none; has those that the model refuses wait.
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
            // Each by itself, so that one holds up no other.
            for (((record, revision, _), text), vector) in places.iter().zip(&texts).zip(&mut vectors) {
                match self.keeper.vector(text).await? {
                    Ok(made) => *vector = Some(made),
                    Err(error) => {
                        tracing::warn!(?record, %error, "a record has no vector yet");
                        // At once, so that whoever begins again knows it.
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
            // Who has vectors of his own may have given some meanwhile.
            self.retain_without(&mut some, |embedding| &embedding.record).await?;
            if some.is_empty() {
                continue;
            }
            // Of one that was changed meanwhile, the feed tells again.
            let done = self.keeper.provider.embed(&self.model, some).await?;
            kept.embedded += done.into_iter().filter(|is_kept| *is_kept).count();
        }
        Ok(())
    }

    /// Leaves those whose records have no vector of the model.
    async fn retain_without<T>(&self, all: &mut Vec<T>, record: impl Fn(&T) -> &RecordId) -> Result<()> {
        if all.is_empty() {
            return Ok(());
        }
        let records: Vec<_> = all.iter().map(|one| record(one).clone()).collect();
        let mut present = self.keeper.provider.vectors(&records).await?.into_iter();
        all.retain(|_| present.next().is_none_or(|present| present.is_none()));
        Ok(())
    }

    /// Looks for what is due again, if it has not for some time.
    fn look_again(&mut self) {
        if matches!(&self.again, Again::Since(last) if last.is_none_or(|last| last.elapsed() >= TRIED_EVERY)) {
            self.again = Again::Behind(self.keeper.clock.now(), None);
        }
    }

    /// Tries the next of what was refused, and is due. As many as the model takes at once, so that what is new waits for no more.
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

    /// Makes the model that of the namespace, unless it is. `SchemaMismatch` where another one has become that meanwhile.
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
        // At once, so that this one hears of it where another model is set again.
        self.put_mark().await
    }

    /// Whether it is to be kept how far the keeper is. What it writes itself comes along the feed, too, and is no reason to.
    fn is_due(&self, is_reached: bool, is_end: bool) -> bool {
        let since = self.marked_at.elapsed();
        match self.unmarked {
            0 => is_reached && (!self.mark.has_token() || since >= KEPT_IDLE),
            count => is_end || count >= KEPT_EVERY || since >= KEPT_AFTER,
        }
    }

    async fn put_mark(&mut self) -> Result<()> {
        let VectorKeeper { provider, clock, .. } = self.keeper;
        // The place of a keeper of the other model stays until that is taken over.
        if !self.is_set {
            return Ok(());
        }
        // What has a vector of another model was passed over.
        if !provider.vector_model().await?.is_some_and(|present| present.is_same(&self.model)) {
            return Err(self.model.is_another());
        }
        self.mark.put(&*provider.documents(), &self.model, clock.now()).await?;
        (self.unmarked, self.marked_at) = (0, Instant::now());
        Ok(())
    }
}
