//! Who makes the vectors of records: it follows the feed behind the stores, which wait for no model (M5).

mod batch;
mod mark;
mod refused;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Changes, Clock, Collection, Collections, Embedder, Embedding, Error, ErrorKind, MAX_VECTORS, MemoryProvider,
    MemoryQuery, Precision, RecordId, Result, SystemClock, Vector, VectorModel, Watch, WatchFrom, Watched,
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
    /// How many texts the model refused; each is tried again an hour later at the earliest.
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
/// After how many changes, and after how long, it is kept how far the keeper is. What comes again has its vector then.
const KEPT_EVERY: usize = 1_000;
const KEPT_AFTER: Duration = Duration::from_secs(60);
/// After how long without a change it is kept how far the feed is, which forgets what is old.
const KEPT_IDLE: Duration = Duration::from_secs(3_600);
/// A text of which any model makes a vector.
const KNOWN: &str = "a text";
/// How long a model has for a batch.
const MODEL_PATIENCE: Duration = Duration::from_secs(300);
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

    /// Embeds what is there, to the end of the feed, and what was refused an hour ago or earlier.
    ///
    /// # Behavior
    /// - What the model refuses (`InvalidInput`, `TooLarge`, `Unexpected`) holds up no other, and is tried again later.
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
            return Err(other_model(&model));
        }
        // Records may have vectors of the other model in the place of those that were made before.
        if begins_anew || !is_set {
            mark.begin_anew();
        }
        let is_kept = mark.is_kept();
        let mut way = Way { keeper: self, model, before, is_set, mark, unmarked: 0, marked_at: Instant::now() };
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
    async fn pull(&self, changes: &mut Changes, is_caught_up: bool) -> (Batch, Option<Error>) {
        let (count, max_text) = (self.embedder.batch().clamp(1, MAX_VECTORS), self.embedder.max_text());
        let mut batch = Batch::default();
        let mut next = changes.next().await;
        loop {
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
            next = match is_caught_up {
                true => match changes.next().now_or_never() {
                    Some(more) => more,
                    None => return (batch, None),
                },
                // More is sure to come, if only that all was told.
                false => changes.next().await,
            };
        }
    }

    /// The vectors of texts. When the model refuses them together, each is tried by itself, so that one holds up no other.
    async fn vectors(&self, texts: &[String]) -> Result<Vec<Result<Vector>>> {
        match self.made(texts).await {
            Ok(vectors) => return Ok(vectors.into_iter().map(Ok).collect()),
            Err(error) if !self.is_refusal(&error).await => return Err(error),
            Err(error) if texts.len() == 1 => return Ok(vec![Err(error)]),
            Err(_) => {}
        }
        let mut each = Vec::with_capacity(texts.len());
        for text in texts {
            match self.made(std::slice::from_ref(text)).await {
                Ok(vectors) => each.extend(vectors.into_iter().map(Ok)),
                Err(error) if self.is_refusal(&error).await => each.push(Err(error)),
                Err(error) => return Err(error),
            }
        }
        Ok(each)
    }

    /// Whether a failure is of the texts, and not of the model: some servers answer a text that is too long for them as if they were down. Such a
    /// one would hold up all that come behind it.
    async fn is_refusal(&self, error: &Error) -> bool {
        let is_told = matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::TooLarge | ErrorKind::Unexpected);
        is_told || self.made(&[KNOWN.to_owned()]).await.is_ok()
    }

    /// What the model makes, if it answers at all.
    async fn made(&self, texts: &[String]) -> Result<Vec<Vector>> {
        let late = |_| Err(Error::new(ErrorKind::Timeout, "the embedder did not answer within 5 minutes").retryable());
        timeout(MODEL_PATIENCE, self.embedder.vectors(texts)).await.unwrap_or_else(late)
    }

    fn refused(&self) -> Refused<'_> {
        Refused { provider: &*self.provider, now: self.clock.now() }
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
}

impl Way<'_> {
    async fn go(&mut self, changes: &mut Changes, until: Until, kept: &mut Kept) -> Result<()> {
        let mut is_caught_up = false;
        loop {
            let (batch, failure) = self.keeper.pull(changes, is_caught_up).await;
            self.keep(batch.texts.into_values().collect(), kept).await?;
            self.unmarked += batch.seen;
            self.mark.token = batch.token.or(self.mark.token.take());
            if let Some(failure) = failure {
                return Err(failure);
            }
            if batch.is_reached {
                is_caught_up = true;
                self.try_again(kept).await?;
                // One that has refused everything takes nothing over.
                if kept.embedded > 0 || kept.refused == 0 {
                    self.set_model().await?;
                }
            }
            let is_end = batch.is_reached && until == Until::Reached;
            if self.is_due(batch.is_reached, is_end) {
                self.put_mark().await?;
            }
            if is_end {
                return Ok(());
            }
        }
    }

    /// Keeps the vectors of texts whose records have none; gives the records of those that the model has refused.
    async fn keep(&mut self, mut texts: Vec<Text>, kept: &mut Kept) -> Result<BTreeSet<RecordId>> {
        let VectorKeeper { provider, .. } = self.keeper;
        if self.is_set && !texts.is_empty() {
            let records: Vec<_> = texts.iter().map(|text| text.record.clone()).collect();
            let mut present = provider.vectors(&records).await?.into_iter();
            texts.retain(|_| present.next().is_none_or(|present| present.is_none()));
        }
        let mut refused = BTreeSet::new();
        if texts.is_empty() {
            return Ok(refused);
        }
        let (places, texts): (Vec<_>, Vec<_>) =
            texts.into_iter().map(|text| ((text.record, text.revision, text.texts), text.text)).unzip();
        let mut embeddings = Vec::with_capacity(texts.len());
        for ((record, revision, texts), vector) in places.into_iter().zip(self.keeper.vectors(&texts).await?) {
            match vector {
                Ok(vector) => embeddings.push(Embedding { record, revision, texts: Some(texts), vector }),
                Err(error) => {
                    tracing::warn!(?record, %error, "a record has no vector yet");
                    refused.insert(record);
                }
            }
        }
        if !embeddings.is_empty() {
            self.set_model().await?;
            // Of one that was changed meanwhile, the feed tells again.
            let done = provider.embed(&self.model, embeddings).await?;
            kept.embedded += done.into_iter().filter(|is_kept| *is_kept).count();
        }
        for record in &refused {
            self.keeper.refused().put(record).await?;
        }
        kept.refused += refused.len();
        Ok(refused)
    }

    /// Tries what was refused, and is due.
    async fn try_again(&mut self, kept: &mut Kept) -> Result<()> {
        let (refused, embedder) = (self.keeper.refused(), &self.keeper.embedder);
        let mut cursor = None;
        loop {
            let page =
                refused.due(embedder.batch().clamp(1, MAX_VECTORS), embedder.max_text(), cursor.as_deref()).await?;
            let still = self.keep(page.texts, kept).await?;
            let done = page.of.into_iter().filter(|(_, record)| record.as_ref().is_none_or(|one| !still.contains(one)));
            refused.remove(done.map(|(id, _)| id).collect()).await?;
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// Makes the model that of the namespace, unless it is. `SchemaMismatch` where another one has become that meanwhile.
    async fn set_model(&mut self) -> Result<()> {
        let VectorKeeper { provider, clock, .. } = self.keeper;
        if self.is_set {
            return Ok(());
        }
        let present = provider.vector_model().await?;
        if !present.as_ref().is_some_and(|present| present.is_same(&self.model)) {
            if present != self.before {
                return Err(other_model(&self.model));
            }
            // Before the model, so that a keeper of the other one does not go on as if that were still there.
            self.mark.put(&*provider.documents(), &self.model, clock.now()).await?;
            provider.set_vector_model(&self.model).await?;
        }
        self.is_set = true;
        Ok(())
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
            return Err(other_model(&self.model));
        }
        self.mark.put(&*provider.documents(), &self.model, clock.now()).await?;
        (self.unmarked, self.marked_at) = (0, Instant::now());
        Ok(())
    }
}

fn other_model(model: &VectorModel) -> Error {
    let name = model.name();
    let message = format!("the namespace has its vectors from another model than {name}: its keeper has to take over");
    Error::new(ErrorKind::SchemaMismatch, message)
}
