//! A story that is run again and again, with a kill at another point each time.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use conformance::{CaseResult, Namespace};
use memory_context::records::Records;
use memory_core::{MemoryProvider, Result};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::deadly::effects;
use crate::model::{Asked, Model};
use crate::place::{Place, open};

/// The life of a process, and what must hold after others have continued its work.
#[async_trait]
pub(crate) trait Story {
    /// The life that is killed.
    const LIFE: &'static str;
    /// The later lives, which are not killed.
    const THEN: &'static [&'static str];

    /// Stores the records that exist before.
    async fn begin(&self, records: &Records) -> Result<()>;

    /// Answers for the model. A returned request waits for its answer until the life is over, and the process is told
    /// so.
    fn answer(&self, asked: Asked, life: &str) -> Option<Asked>;

    /// Checks what must hold in the end.
    async fn check(&mut self, told: &Told<'_>) -> CaseResult;
}

/// The result of a story.
pub(crate) struct Told<'a> {
    pub(crate) place: &'a Place,
    pub(crate) provider: &'a Arc<dyn MemoryProvider>,
    pub(crate) records: Records,
    /// The effects on the world.
    pub(crate) effects: Vec<String>,
    pub(crate) kill: Kill,
    /// Whether the life was killed before its end.
    pub(crate) is_cut: bool,
}

/// When a life is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kill {
    Never,
    /// At the point with this number.
    AtPoint(usize),
    /// While the endpoint has the request with this number.
    WhileAsked(usize),
}

/// The points that a life passed.
#[derive(Debug, Clone, Copy)]
struct Lived {
    points: usize,
    requests: usize,
}

/// The number of points at which a life is killed, unless the environment sets it.
const KILLS: usize = 20;
/// How much of a streamed answer is written when a life is killed in it.
pub(crate) const BEGUN: &str = "Hi";

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Runs a story to its end, with kills at points that are spread over its life, and with a kill in each of its
/// requests. Returns how many lives were cut off.
pub(crate) async fn kill_everywhere(url: &str, story: &mut impl Story) -> std::result::Result<usize, Failed> {
    let kills = std::env::var("MEMORY_TEST_KILLS").ok().map_or(Ok(KILLS), |kills| kills.parse())?;
    let mut teller = Teller::start(url).await?;
    let Lived { points, requests } = teller.tell(story, Kill::Never).await?.expect("it comes to its end");
    let points = spread(points, kills, url.starts_with("postgres")).into_iter().map(Kill::AtPoint);
    let mut cut = 0;
    for kill in points.chain((0..requests).map(Kill::WhileAsked)) {
        cut += usize::from(teller.tell(story, kill).await?.is_none());
    }
    teller.end().await?;
    Ok(cut)
}

/// So many numbers below an end, or all of them; two engines together have twice as many.
fn spread(end: usize, count: usize, is_other: bool) -> BTreeSet<usize> {
    (0..count.min(end)).map(|number| (2 * number + usize::from(is_other)) * end / (2 * count.min(end))).collect()
}

/// Runs a story.
struct Teller {
    place: Place,
    provider: Arc<dyn MemoryProvider>,
    model: Model,
    folder: TempDir,
    told: usize,
    lives: usize,
}

impl Teller {
    async fn start(url: &str) -> std::result::Result<Self, Failed> {
        let (model, folder) = (Model::start().await, TempDir::new()?);
        let (url, endpoint, name) = (url.to_owned(), model.url.clone(), Namespace::unique().name);
        let place = Place { url, name, agent: String::new(), folder: PathBuf::new(), endpoint, model: String::new() };
        let provider = place.provider().await?;
        Ok(Self { place, provider, model, folder, told: 0, lives: 0 })
    }

    /// Runs it once, with another agent in another world. Returns the points that its life passed, unless it was cut
    /// off.
    async fn tell<S: Story>(&mut self, story: &mut S, kill: Kill) -> std::result::Result<Option<Lived>, Failed> {
        self.told += 1;
        self.place.agent = format!("eliza{}", self.told);
        self.place.folder = self.folder.path().join(&self.place.agent);
        std::fs::create_dir(&self.place.folder)?;
        let records = self.place.records(&self.provider)?;
        story.begin(&records).await?;
        let lived = self.live(story, S::LIFE, kill).await?;
        for life in S::THEN {
            assert!(self.live(story, life, Kill::Never).await?.is_some(), "{life}, behind {kill:?}");
        }
        let (place, provider, effects) = (&self.place, &self.provider, effects(&self.place.folder));
        let told = Told { place, provider, records, effects, kill, is_cut: lived.is_none() };
        assert_eq!(open(provider.as_ref()).await?, 0, "{told:?}");
        story.check(&told).await?;
        Ok(lived)
    }

    /// Runs another process, and answers for its model until it ends. Returns the points that it passed, unless it was
    /// killed before its end.
    async fn live(&mut self, story: &impl Story, life: &str, kill: Kill) -> std::result::Result<Option<Lived>, Failed> {
        self.lives += 1;
        // Requests of an earlier life must not be taken for those of the next.
        self.place.model = format!("life {}", self.lives);
        let point = if let Kill::AtPoint(point) = kill { Some(point) } else { None };
        let mut child = self.place.start(life, point)?;
        let (mut input, mut output) = (child.stdin.take().ok_or("a pipe")?, child.stdout.take().ok_or("a pipe")?);
        // Its output ends with the process.
        let mut over = spawn_blocking(move || {
            let mut written = String::new();
            output.read_to_string(&mut written).map(|_| written)
        });
        let (mut requests, mut waiting, mut written) = (0, Vec::new(), Vec::new());
        let points = loop {
            let asked = tokio::select! {
                over = &mut over => break over??,
                asked = self.model.asked() => asked,
            };
            if asked.model != self.place.model {
                continue;
            }
            let is_last = kill == Kill::WhileAsked(requests);
            requests += 1;
            if !is_last {
                if let Some(asked) = story.answer(asked, life) {
                    waiting.push(asked);
                    writeln!(input, "it waits")?;
                }
            } else if asked.body["stream"] == true {
                let answer = asked.begins();
                answer.writes(BEGUN);
                written.push(answer);
                child.kill()?;
            } else {
                waiting.push(asked);
                child.kill()?;
            }
        };
        match child.wait()?.code() {
            Some(0) => Ok(Some(Lived { points: points.trim().parse()?, requests })),
            // A signal has ended it.
            None => Ok(None),
            Some(code) => Err(format!("the life {life}, killed {kill:?}, ended with {code}").into()),
        }
    }

    async fn end(self) -> CaseResult {
        self.provider.shutdown().await?;
        Ok(self.place.sandbox().remove(&self.place.url).await?)
    }
}

impl fmt::Debug for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "killed {:?}: {:?}", self.kill, self.effects)
    }
}
