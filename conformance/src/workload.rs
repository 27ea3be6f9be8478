//! Workloads for benchmarks: the same rows and questions for every engine, generated from fixed seeds.

use std::time::Duration;

use memory_core::{MemoryQuery, Metadata, NewMemory, SpaceId, Status, Timestamp, Trigger};

use crate::random::mix;

/// The text in each row's trigger, in bytes, unless a ledger says otherwise.
pub const PAYLOAD: usize = 600;
/// The size of a batch while loading, in rows.
pub const BATCH: usize = 1_000;
/// How many rows of a ledger are pending, whatever its size.
pub const PENDING: usize = 20;

/// The order in time in which rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// As they happen.
    Ascending,
    /// In random order, as an import from many sources may bring them.
    Random,
    /// Newest first, as an export of another system may have them.
    Descending,
}

impl RowOrder {
    /// Every order.
    pub const ALL: [Self; 3] = [Self::Ascending, Self::Random, Self::Descending];
}

/// The form of the ids of spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceForm {
    /// Six plain segments: `plugin-discord-g1-c2-u3-m4`.
    Plain,
    /// The same with a UUID as the user, whose hyphens are boundaries too.
    WithUuid,
}

/// How many spaces each level has, apart from those that the questions ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// The number of guilds; at least one.
    pub guilds: u64,
    /// The number of channels in each guild; at least one.
    pub channels: u64,
    /// The number of users in each channel; at least one.
    pub users: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { guilds: 100, channels: 10, users: 1_000 }
    }
}

/// A ledger of `rows` rows.
///
/// Half of the rows are in one guild (dense), a thousandth in another (medium), 20 in a third (sparse), and the oldest thousandth in a
/// fourth (stale). A room has twice a thousandth under one id, and the dense guild has 20 rows at its own id. The other rows are spread
/// over the guilds, channels and users of its [`Spread`].
#[derive(Debug, Clone, Copy)]
pub struct Ledger {
    /// The number of rows.
    pub rows: usize,
    /// The order in time in which the rows are written.
    pub order: RowOrder,
    /// The form of the ids of their spaces.
    pub form: SpaceForm,
    /// How many spaces each level has.
    pub spread: Spread,
    /// The text in each row's trigger, in bytes.
    pub payload: usize,
}

/// A query with a name.
#[derive(Debug, Clone)]
pub struct Question {
    /// The name, for tables.
    pub name: &'static str,
    /// The query.
    pub query: MemoryQuery,
}

/// The createdAt of the oldest row, in milliseconds; each later row comes a second later.
const START: i64 = 1_600_000_000_000;

impl Ledger {
    /// A ledger of plain spaces, written in the order of time.
    pub fn new(rows: usize) -> Self {
        let (order, form) = (RowOrder::Ascending, SpaceForm::Plain);
        Self { rows, order, form, spread: Spread::default(), payload: PAYLOAD }
    }

    /// The rows, in the order in which they are written.
    pub fn rows(self) -> impl Iterator<Item = NewMemory> {
        (0..self.rows).map(move |place| self.row(self.place_in_time(place)))
    }

    /// The rows in batches of [`BATCH`], in the order in which they are written.
    pub fn batches(self) -> impl Iterator<Item = Vec<NewMemory>> {
        (0..self.rows.div_ceil(BATCH)).map(move |batch| {
            let places = batch * BATCH..self.rows.min((batch + 1) * BATCH);
            places.map(|place| self.row(self.place_in_time(place))).collect()
        })
    }

    /// The row at an index in the order of time. Indexes from `rows` on give further rows of the same kind.
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

    /// The queries of every benchmark: the newest 50 rows of each shape.
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
            // A step that has no common factor with the number of rows visits each index once. The golden ratio puts consecutive rows far
            // apart.
            RowOrder::Random => {
                let step =
                    ((self.rows as f64 * 0.618) as usize + 1..).find(|step| gcd(*step, self.rows) == 1).unwrap_or(1);
                (place * step + self.rows / 3) % self.rows
            }
        }
    }

    /// Text that differs from row to row. Its first word is one of eight, and the others are in nearly all rows.
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
        // At least 60 rows of each shape, so that even a small ledger has the newest 50.
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

/// The size of the texts of a row, in bytes, which every engine has to keep.
pub fn size(row: &NewMemory) -> usize {
    let context = row.context.as_ref().map_or(0, |context| context.as_str().len());
    row.space_id.as_str().len() + row.trigger.as_str().len() + context + row.metadata.as_str().len()
}

/// Collects the durations of two ways to do the same work in one run, and compares them in a table.
#[derive(Debug, Default)]
pub struct Ratios(Vec<Samples>);

/// The samples of one kind of work, each the time of one operation.
#[derive(Debug)]
struct Samples {
    name: String,
    /// Empty if there is no bare driver to compare with.
    bare: Vec<Duration>,
    ours: Vec<Duration>,
}

impl Ratios {
    /// Adds a sample of the provider, and one of the bare driver if there is one. Each is the time of one operation.
    pub fn add(&mut self, name: &str, bare: Option<Duration>, ours: Duration) {
        let place = self.0.iter().position(|samples| samples.name == name).unwrap_or_else(|| {
            self.0.push(Samples { name: name.to_owned(), bare: Vec::new(), ours: Vec::new() });
            self.0.len() - 1
        });
        self.0[place].bare.extend(bare);
        self.0[place].ours.push(ours);
    }

    /// A Markdown table of the times of the bare driver and of the provider: the medians, with the ratio of the speeds;
    /// the best samples, which show the cost of the work most clearly on a shared machine; and the 95th percentiles.
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

    /// The kinds of work at which the provider is slower than `minimum` times the speed of the bare driver, each with its ratio.
    pub fn below(&self, minimum: f64) -> Vec<(&str, f64)> {
        let ratios = self.0.iter().filter_map(|samples| Some((samples.name.as_str(), samples.ratio()?)));
        ratios.filter(|(_, ratio)| *ratio < minimum).collect()
    }
}

impl Samples {
    /// The speed of the provider relative to the bare driver; 1 means equal.
    fn ratio(&self) -> Option<f64> {
        Some(quantile(&self.bare, 0.5)?.as_secs_f64() / quantile(&self.ours, 0.5)?.as_secs_f64())
    }
}

/// The word that every eighth row has in its text.
pub(crate) const WORD: &str = MOODS[0];
/// A question that every eighth row answers best.
pub const QUESTION: &str = "Who was glad about the weather and the music?";

const MOODS: [&str; 8] = ["glad", "calm", "bored", "tired", "proud", "shy", "angry", "amused"];
const TOPICS: [&str; 8] = ["rust", "music", "travel", "cooking", "sport", "books", "weather", "work"];

fn time(place: usize) -> Timestamp {
    Timestamp::from_millis(START + place as i64 * 1_000).expect("a valid time")
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The quantile of the samples, with `share` from 0 to 1; 0 gives the least sample.
fn quantile(samples: &[Duration], share: f64) -> Option<Duration> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted.get((sorted.len() as f64 * share) as usize).copied()
}

fn micros(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "–".to_owned(), |duration| format!("{:.1} µs", duration.as_secs_f64() * 1e6))
}
