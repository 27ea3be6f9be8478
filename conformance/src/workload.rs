//! Workloads for benchmarks: the same rows and questions for every engine, made from fixed seeds.

use std::time::Duration;

use memory_core::{MemoryQuery, Metadata, NewMemory, SpaceId, Status, Timestamp, Trigger};

use crate::random::mix;

/// The bytes of text in each row's trigger, unless a ledger says otherwise.
pub const PAYLOAD: usize = 600;
/// The rows of one batch while loading.
pub const BATCH: usize = 1_000;
/// How many rows of a ledger are pending, whatever its size.
pub const PENDING: usize = 20;

/// The order of time in which rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// As they happen.
    Ascending,
    /// As an import of many sources may bring them.
    Random,
    /// Newest first, as an export of another system may have them.
    Descending,
}

impl RowOrder {
    /// Every order.
    pub const ALL: [Self; 3] = [Self::Ascending, Self::Random, Self::Descending];
}

/// How spaces look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceForm {
    /// Six plain segments: `plugin-discord-g1-c2-u3-m4`.
    Plain,
    /// The same with a UUID as user, whose hyphens are boundaries too.
    WithUuid,
}

/// How many spaces there are on each level, apart from those that a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// In all; at least one.
    pub guilds: u64,
    /// In each guild; at least one.
    pub channels: u64,
    /// In each channel; at least one.
    pub users: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { guilds: 100, channels: 10, users: 1_000 }
    }
}

/// A ledger of `rows` rows.
///
/// Half of the rows are in one guild (dense), a thousandth in another (medium), 20 in a third (sparse), the oldest thousandth
/// in a fourth (stale); a room takes twice a thousandth under one id; the dense guild has 20 rows of its own; the rest is
/// spread over the guilds, channels and users of its [`Spread`].
#[derive(Debug, Clone, Copy)]
pub struct Ledger {
    /// How many rows there are.
    pub rows: usize,
    /// In which order of time they are written.
    pub order: RowOrder,
    /// How their spaces look.
    pub form: SpaceForm,
    /// How many spaces there are.
    pub spread: Spread,
    /// The bytes of text in each row's trigger.
    pub payload: usize,
}

/// A question, and what it is called.
#[derive(Debug, Clone)]
pub struct Question {
    /// The name, for a table.
    pub name: &'static str,
    /// The query.
    pub query: MemoryQuery,
}

/// The time of the oldest row; each later one comes a second after.
const START: i64 = 1_600_000_000_000;

impl Ledger {
    /// A ledger of plain spaces, written as it happened.
    pub fn new(rows: usize) -> Self {
        let (order, form) = (RowOrder::Ascending, SpaceForm::Plain);
        Self { rows, order, form, spread: Spread::default(), payload: PAYLOAD }
    }

    /// The rows in the order in which they are written.
    pub fn rows(self) -> impl Iterator<Item = NewMemory> {
        (0..self.rows).map(move |place| self.row(self.place_in_time(place)))
    }

    /// The rows in batches.
    pub fn batches(self) -> impl Iterator<Item = Vec<NewMemory>> {
        (0..self.rows.div_ceil(BATCH)).map(move |batch| {
            let places = batch * BATCH..self.rows.min((batch + 1) * BATCH);
            places.map(|place| self.row(self.place_in_time(place))).collect()
        })
    }

    /// The row at a place in time; places from `rows` on are further rows of the same kind.
    pub fn row(self, place: usize) -> NewMemory {
        let trigger = format!(r#"{{"text":"{}","n":{place}}}"#, self.text(place));
        let trigger = Trigger::parse(&trigger).expect("valid JSON");
        let metadata = format!(
            r#"{{"score":{},"topic":"{}"}}"#,
            mix(place as u64) % 100,
            TOPICS[mix(place as u64) as usize % TOPICS.len()]
        );
        let pending = place < self.rows && place.is_multiple_of((self.rows / PENDING).max(1));
        NewMemory::new(self.space(place), trigger, time(place))
            .with_metadata(Metadata::parse(&metadata).expect("valid metadata"))
            .with_status(if pending { Status::Pending } else { Status::Completed })
    }

    /// The questions of every benchmark: the newest 50 of each shape.
    pub fn questions(self) -> Vec<Question> {
        let under = |path| MemoryQuery::builder().under(path);
        let channel = format!("plugin-discord-g{}-c{}-*", 42 % self.spread.guilds, 7 % self.spread.channels);
        let builders = [
            ("exact, a room", MemoryQuery::builder().exact("plugin-discord-room")),
            ("exact, a parent above half", MemoryQuery::builder().exact("plugin-discord-dense")),
            ("under, dense", under("plugin-discord-dense")),
            ("under, medium", under("plugin-discord-medium")),
            ("under, sparse", under("plugin-discord-sparse")),
            ("under, stale", under("plugin-discord-stale")),
            ("prefix, siblings", MemoryQuery::builder().prefix("plugin-discord-g1")),
            ("glob, a guild's channel", MemoryQuery::builder().glob(channel)),
            ("filter under dense", under("plugin-discord-dense").filter_text("metadata.topic = 'rust'")),
            ("text under dense", under("plugin-discord-dense").text(WORD)),
            ("pending rows", MemoryQuery::builder().all().status(Status::Pending)),
            ("pending under dense", under("plugin-discord-dense").status(Status::Pending)),
        ];
        builders.map(|(name, builder)| Question { name, query: builder.build().expect("a valid query") }).into()
    }

    fn place_in_time(self, place: usize) -> usize {
        match self.order {
            RowOrder::Ascending => place,
            RowOrder::Descending => self.rows - 1 - place,
            // A step that has no factor in common with the number of rows visits each place once; by the golden ratio, rows
            // that follow one another are far apart.
            RowOrder::Random => {
                let step =
                    ((self.rows as f64 * 0.618) as usize + 1..).find(|step| gcd(*step, self.rows) == 1).unwrap_or(1);
                (place * step + self.rows / 3) % self.rows
            }
        }
    }

    /// Words that differ from row to row. The first is one of eight, and the others are in nearly all rows.
    fn text(self, place: usize) -> String {
        let mut text = String::with_capacity(self.payload + 16);
        let mut state = mix(place as u64);
        while text.len() < self.payload {
            let words = if text.is_empty() { MOODS } else { TOPICS };
            let word = words[state as usize % words.len()];
            text.push_str(word);
            text.push(' ');
            state = mix(state);
        }
        text
    }

    fn space(self, place: usize) -> SpaceId {
        let (random, Spread { guilds, channels, users }) = (mix(place as u64), self.spread);
        let (channel, user) = (random / guilds % channels, random / guilds / channels % users);
        let user = match self.form {
            SpaceForm::Plain => format!("u{user}"),
            SpaceForm::WithUuid => uuid::Uuid::from_u64_pair(0x4000 | user << 32, 0x8000 << 48 | user).to_string(),
        };
        let whole = |id: &str| SpaceId::parse(id).expect("a valid space");
        // At least 60 rows of each shape, so that the newest 50 are 50 rows in a small ledger too.
        let a_thousandth = (self.rows / 1_000).max(60).min(self.rows);
        let every = |count: usize| (self.rows / count).max(1);
        let guild = match place {
            _ if place < a_thousandth => "stale".to_owned(),
            _ if place % every(2 * a_thousandth) == 7 => return whole("plugin-discord-room"),
            _ if place % every(20) == 3 => "sparse".to_owned(),
            _ if place % every(20) == 5 => return whole("plugin-discord-dense"),
            _ if place % every(a_thousandth) == 1 => "medium".to_owned(),
            _ if place.is_multiple_of(2) => "dense".to_owned(),
            _ => format!("g{}", random % guilds),
        };
        SpaceId::parse(format!("plugin-discord-{guild}-c{channel}-{user}-m{place}")).expect("a valid space")
    }
}

/// The bytes of the texts of a row, which every engine has to keep.
pub fn size(row: &NewMemory) -> usize {
    let context = row.context.as_ref().map_or(0, |context| context.as_str().len());
    row.space_id.as_str().len() + row.trigger.as_str().len() + context + row.metadata.as_str().len()
}

/// Collects how long two ways to do the same took in one run, and prints their ratio.
#[derive(Debug, Default)]
pub struct Ratios(Vec<Samples>);

/// What was measured of one kind of work, per operation.
#[derive(Debug)]
struct Samples {
    name: String,
    /// None where there is nothing to compare with.
    bare: Vec<Duration>,
    ours: Vec<Duration>,
}

impl Ratios {
    /// Adds a sample of each, per operation; of the bare driver's where there is one.
    pub fn add(&mut self, name: &str, bare: Option<Duration>, ours: Duration) {
        let place = self.0.iter().position(|samples| samples.name == name).unwrap_or_else(|| {
            self.0.push(Samples { name: name.to_owned(), bare: Vec::new(), ours: Vec::new() });
            self.0.len() - 1
        });
        self.0[place].bare.extend(bare);
        self.0[place].ours.push(ours);
    }

    /// A Markdown table of the medians, with the speed of ours in proportion to the bare driver's; of the best samples, which tell best
    /// what the work itself costs on a machine that others share; and of the 95th percentile.
    pub fn table(&self) -> String {
        let columns =
            ["work", "bare driver", "ours", "ratio of speeds", "bare at best", "ours at best", "bare p95", "ours p95"];
        let mut table = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
        for samples in &self.0 {
            let ratio = samples.ratio().map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
            let both = |share| [&samples.bare, &samples.ours].map(|all| micros(quantile(all, share))).join(" | ");
            let (median, best, p95) = (both(0.5), both(0.0), both(0.95));
            table += &format!("| {} | {median} | {ratio} | {best} | {p95} |\n", samples.name);
        }
        table
    }

    /// The work at which ours is slower than so much of the bare driver's speed, with the ratio.
    pub fn below(&self, minimum: f64) -> Vec<(&str, f64)> {
        let ratios = self.0.iter().filter_map(|samples| Some((samples.name.as_str(), samples.ratio()?)));
        ratios.filter(|(_, ratio)| *ratio < minimum).collect()
    }
}

impl Samples {
    /// The speed of ours in proportion to the bare driver's.
    fn ratio(&self) -> Option<f64> {
        Some(quantile(&self.bare, 0.5)?.as_secs_f64() / quantile(&self.ours, 0.5)?.as_secs_f64())
    }
}

/// The word of a row's text that every eighth row has.
pub(crate) const WORD: &str = MOODS[0];
/// A question in words that [`WORD`] answers, and other rows less well.
pub const QUESTION: &str = "Who was glad about the weather and the music?";

const MOODS: [&str; 8] = ["glad", "calm", "bored", "tired", "proud", "shy", "angry", "amused"];
const TOPICS: [&str; 8] = ["rust", "music", "travel", "cooking", "sport", "books", "weather", "work"];

fn time(place: usize) -> Timestamp {
    Timestamp::from_millis(START + place as i64 * 1_000).expect("a valid time")
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The sample below which such a share of all lies: the least for 0.
fn quantile(samples: &[Duration], share: f64) -> Option<Duration> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted.get((sorted.len() as f64 * share) as usize).copied()
}

fn micros(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "–".to_owned(), |duration| format!("{:.1} µs", duration.as_secs_f64() * 1e6))
}
