//! The path index: its tokens, the way from one to the next, the windows of a list, and when its parts are merged.

use memory_core::engine::Place;
use memory_core::{Memory, MemoryId, NewMemory, Order, SpaceId, Timestamp, Trigger};
use rusqlite::{Connection, params};

use paths::{PathEntry, siblings, tokens_of};
use slots::{Slots, Windows};
use statements::{INSERT_PATHS, SLOT_BITS, SLOTS, prepare};

// Private modules of the crate.
#[allow(dead_code)]
#[path = "../src/error.rs"]
mod error;
#[allow(dead_code)]
#[path = "../src/paths.rs"]
mod paths;
#[allow(dead_code)]
#[path = "../src/slots.rs"]
mod slots;
#[allow(dead_code)]
#[path = "../src/statements.rs"]
mod statements;

#[test]
fn tokens_are_the_id_and_its_ancestors() {
    assert_eq!(tokens_of(&memory(1, "plugin-A b/é")), "e2plugin-~41~20b/é u0plugin u1plugin-~41~20b");
    assert_eq!(tokens_of(&memory(0, "a-b")), "e1a-b u0a e1a-b- u0a-");
}

#[test]
fn a_token_tells_its_place() {
    let connection = database();
    let spaces = ["a", "A", "~41", "~", "~7e41", "é", "e\u{301}", "x y"];
    let entry = |(place, space): (usize, &&str)| PathEntry {
        slot: place as i64,
        tokens: tokens_of(&memory(1, space)),
        is_shared: false,
    };
    paths::insert(&connection, &mut spaces.iter().enumerate().map(entry).collect()).expect("inserts");
    let mut expected = spaces.map(|space| Place::Space(space.to_owned()));
    expected.sort();
    assert_eq!(siblings(&connection, "", Some(""), spaces.len()).expect("reads"), expected, "in the order of bytes");
    let fewer = spaces.len() - 1;
    let any = siblings(&connection, "", None, fewer).expect("reads");
    assert!(any.len() == fewer && any.iter().all(|place| expected.contains(place)), "{any:?}");
    assert_eq!(siblings(&connection, "", Some(""), fewer).expect("reads"), expected[..fewer]);
    for (place, next) in expected.iter().zip(&expected[1..]) {
        assert_eq!(siblings(&connection, "", Some(place.path()), 1).expect("reads"), std::slice::from_ref(next));
    }

    let mut below = vec![PathEntry { slot: 99, tokens: tokens_of(&memory(1, "B/c-d")), is_shared: false }];
    paths::insert(&connection, &mut below).expect("inserts");
    assert_eq!(siblings(&connection, "B", Some(""), 1).expect("reads"), [Place::Below("B".to_owned())]);
    let mut below_nothing = vec![PathEntry { slot: 100, tokens: tokens_of(&memory(1, "-a")), is_shared: false }];
    paths::insert(&connection, &mut below_nothing).expect("inserts");
    for most in [2, 100] {
        let first = siblings(&connection, "", Some(""), most).expect("reads");
        assert!(first.contains(&Place::Below(String::new())), "{most}: {first:?}");
    }
    for unknown in ["e0~4", "e0~é"] {
        let connection = database();
        connection.execute(INSERT_PATHS, params![1, unknown]).expect("inserts");
        siblings(&connection, "", Some(""), 1).expect_err(unknown);
    }
}

#[test]
fn the_search_for_a_sibling_does_not_read_through_the_list_of_another() {
    let connection = database();
    connection.execute_batch("BEGIN").expect("a transaction");
    let mut insert = connection.prepare(INSERT_PATHS).expect("a statement");
    for number in 0..50_000_i64 {
        let space = if number < 49_999 { "a-b" } else { "a-c" };
        let slot = number << SLOT_BITS;
        insert.execute((slot, tokens_of(&memory(number as u128, space)))).expect("inserts");
    }
    connection.execute_batch("COMMIT; INSERT INTO memory_paths (memory_paths) VALUES ('optimize')").expect("one part");
    // The vocabulary has an entry for each page that begins with a token; FTS5 searches for the last one that is not
    // greater.
    let page =
        "SELECT pgno >> 1 FROM memory_paths_idx WHERE term <= CAST('0' || ?1 AS BLOB) ORDER BY term DESC LIMIT 1";
    let page = |token: &str| connection.query_row(page, [token], |row| row.get::<_, i64>(0)).expect("a page");
    let [first, begin, next] = ["e1a-b", "e1a-b-!", "e1a-c"].map(page);
    assert!(next - first > 30, "a long list has {first} to {next}");
    assert!(next - begin < 3, "the search begins at {begin} for {next}");
    let found = siblings(&connection, "a-", Some(""), 3).expect("reads");
    assert_eq!(found, ["a-b", "a-c"].map(|path| Place::Space(path.to_owned())));
    assert_eq!(siblings(&connection, "a-", Some(""), 1).expect("reads"), &found[..1]);
}

#[test]
fn windows_give_every_slot_however_far_apart_they_are() {
    let connection = database();
    let in_one_millisecond = 0..3_000;
    let years_apart = (1..=10).map(|year| (year * 31_536_000_000) << SLOT_BITS);
    let seconds_apart = (1..=2_000).map(|second| (400_000_000_000 + second * 1_000) << SLOT_BITS);
    let slots: Vec<i64> = in_one_millisecond.chain(years_apart).chain(seconds_apart).collect();
    for slot in &slots {
        connection.execute(INSERT_PATHS, params![slot, "a"]).expect("inserts");
    }
    for wanted in [1, 51, 1_001] {
        for (first, last) in [(0, 5_009), (0, 4_000), (0, 3_005), (0, 2_999), (7, 1_500), (5, 5)] {
            let ends = (slots[first], slots[last]);
            for reach in [i64::MIN, 0, ends.1 - 60_000, ends.1, i64::MAX] {
                let mut forwards = prepare(&connection, SLOTS.of(Order::OldestFirst)).expect("a statement");
                let windows = Windows::new(&mut forwards, r#""a""#.to_owned(), ends, wanted, reach);
                let mut back = Slots::Back(windows);
                let mut found = Vec::new();
                while let Some(slot) = back.next().expect("a slot") {
                    found.push(slot);
                }
                found.reverse();
                assert_eq!(found, slots[first..=last], "{wanted} of {first} to {last}, reaching {reach}");
            }
        }
    }
}

#[test]
fn all_parts_are_merged_only_after_the_ledger_has_grown() {
    let connection = database();
    let store = |rows: std::ops::Range<i64>| {
        connection.execute_batch("BEGIN").expect("a transaction");
        for row in rows {
            let memory = "INSERT INTO memories (id, slot, space_id, status, trigger, metadata, revision)
                VALUES (CAST(?1 AS BLOB), ?1, 'a', 'completed', '1', '{}', 1)";
            connection.execute(memory, [row]).expect("a row");
            connection.execute(INSERT_PATHS, (row, "e0a")).expect("its path");
        }
        connection.execute_batch("COMMIT").expect("a commit");
    };
    let parts = || {
        let count = "SELECT count(DISTINCT segid) FROM memory_paths_idx";
        connection.query_row(count, [], |row| row.get::<_, i64>(0)).expect("a number")
    };
    let mut rows_when_whole = 0;
    let mut merge = || while !paths::merge(&connection, &mut rows_when_whole).expect("merges") {};
    store(0..5_000);
    store(5_000..10_000);
    merge();
    assert_eq!(parts(), 1);
    store(10_000..10_100);
    merge();
    assert_eq!(parts(), 2, "a hundredth is not worth it");
    store(10_100..11_000);
    merge();
    store(11_000..12_000);
    merge();
    assert_eq!(parts(), 1);
}

fn database() -> Connection {
    let connection = Connection::open_in_memory().expect("a database");
    connection.execute_batch(migrations::sqlite()[0].text).expect("the schema");
    connection
}

fn memory(id: u128, space: &str) -> Memory {
    let trigger = Trigger::parse("1").expect("valid");
    let memory = NewMemory::new(SpaceId::parse(space).expect("valid"), trigger, Timestamp::MIN);
    memory.into_memory(MemoryId::from_bytes(id.to_be_bytes()))
}
