//! Which calls a history has: the same ones for each seed.

use std::collections::BTreeMap;

use fastrand::Rng;

/// How many calls one record gets at most: the search for their order grows exponentially.
const MAX_CALLS: usize = 50;
/// How many it gets on average.
const CALLS: usize = 25;
/// How many records of a kind are written at the same time.
const WIDTH: usize = 3;

/// Some are siblings that merely start alike.
pub(crate) const SPACES: [&str; 5] = ["h-1", "h-1-x", "h-1/y", "h-10", "h-2:z"];
pub(crate) const PATHS: [&str; 5] = ["h", "h-1", "h-1-x", "h-10", "h-2"];

/// A call to make, without the parts that only the client can know, such as the id of a memory.
#[derive(Debug, Clone)]
pub(crate) enum Planned {
    Store { memory: String, variant: u8 },
    Update { memory: String, is_conditional: bool },
    Get { record: String },
    Erase { record: String },
    Put { document: String, space: usize, condition: Condition },
    Remove { document: String },
    Query { documents: bool, path: usize },
    Walk { documents: bool, path: usize, limit: usize },
    Recall { documents: bool, path: usize },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Condition {
    None,
    Absent,
    /// The revision that the client saw last.
    Seen,
}

pub(crate) fn plan(seed: u64, calls: usize) -> Vec<Planned> {
    let mut random = Rng::with_seed(seed);
    let mut counts = BTreeMap::new();
    (0..calls).map(|place| planned(&mut random, place, &mut counts)).collect()
}

/// The space of a memory, which never changes.
pub(crate) fn space_of(memory: &str) -> &'static str {
    let number = memory[1..].parse::<usize>().unwrap_or_default();
    SPACES[number % SPACES.len()]
}

fn planned(random: &mut Rng, place: usize, counts: &mut BTreeMap<String, usize>) -> Planned {
    let kind = random.u32(0..100);
    let (variant, is_conditional) = (u8::from(random.u32(0..5) == 0), random.u32(0..3) == 0);
    let conditions = [Condition::None, Condition::None, Condition::Absent, Condition::Seen];
    let (condition, space) = (conditions[random.usize(0..conditions.len())], random.usize(0..SPACES.len()));
    let (documents, path, limit) = (random.bool(), random.usize(0..PATHS.len()), random.usize(2..9));
    let mut number = place / (2 * CALLS) + random.usize(0..WIDTH);
    let mut record = |letter| {
        loop {
            let name = format!("{letter}{number}");
            let count = counts.entry(name.clone()).or_insert(0);
            if *count < MAX_CALLS {
                *count += 1;
                return name;
            }
            number += 1;
        }
    };
    match kind {
        0..12 => Planned::Store { memory: record('m'), variant },
        12..31 => Planned::Update { memory: record('m'), is_conditional },
        31..40 => Planned::Get { record: record('m') },
        40..42 => Planned::Erase { record: record('m') },
        42..61 => Planned::Put { document: record('d'), space, condition },
        61..70 => Planned::Get { record: record('d') },
        70..77 => Planned::Remove { document: record('d') },
        77..79 => Planned::Erase { record: record('d') },
        79..86 => Planned::Query { documents, path },
        86..94 => Planned::Walk { documents, path, limit },
        _ => Planned::Recall { documents, path },
    }
}
