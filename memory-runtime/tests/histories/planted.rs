//! Tests the judge: it refuses each small history with an anomaly, and accepts its twin without one.

use std::collections::BTreeMap;

use conformance::server::trial;
use libtest_mimic::Trial;

use crate::judge::rules::LAST;
use crate::judge::search::Loss;
use crate::judge::{Past, Setting, judge};
use crate::log::{Action, Answer, Call, History, How, Outcome, Page, Row, Told, Version, Wanted, What};
use crate::stage::known_ids;

/// A name, a history to refuse, and its twin.
type Pair = (&'static str, History, History);

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<_> =
        [writes(), revisions(), removals(), pages(), across()].into_iter().flatten().map(pair).collect();
    trials.push(trial("planted::a_failover_takes_back_what_its_setting_allows", || {
        failovers();
        Ok(())
    }));
    trials.push(trial("planted::a_search_that_grows_is_given_up", || {
        given_up();
        Ok(())
    }));
    trials.push(trial("planted::the_last_id_of_a_memory_is_known", || {
        last_ids();
        Ok(())
    }));
    trials.push(trial("planted::the_smallest_part_is_shown", || {
        smallest();
        Ok(())
    }));
    trials
}

fn pair((name, wrong, right): Pair) -> Trial {
    trial(format!("planted::{name}"), move || {
        let found = judge(&wrong, Setting::STRICT);
        assert_eq!(found.anomalies.len(), 1, "{found:#?}");
        let found = judge(&right, Setting::STRICT);
        assert!(found.anomalies.is_empty(), "{found:#?}");
        Ok(())
    })
}

fn writes() -> Vec<Pair> {
    let (put, get) = (|from, to| one(from, to, put(Wanted::Any)), |from, to, found| one(from, to, get()).finds(found));
    let stored = || one(1, 2, store(0)).is(id("a"));
    vec![
        (
            "an_acknowledged_write_is_lost",
            of([put(1, 2).is(rev(1)), get(3, 4, None)]),
            of([put(1, 2).is(rev(1)), get(3, 4, doc(1, 1))]),
        ),
        (
            "a_read_is_stale",
            of([put(1, 2).is(rev(1)), put(3, 4).is(rev(2)), get(5, 6, doc(1, 1))]),
            of([put(1, 2).is(rev(1)), put(3, 5).is(rev(2)), get(4, 6, doc(1, 1))]),
        ),
        (
            "a_read_knows_the_future",
            of([get(1, 2, doc(1, 3)), put(3, 4).is(rev(1))]),
            of([get(1, 4, doc(1, 3)), put(3, 5).is(rev(1))]),
        ),
        (
            "reads_go_back",
            of([put(1, 9).is(rev(1)), get(2, 3, doc(1, 1)), get(4, 5, None)]),
            of([put(1, 9).is(rev(1)), get(2, 3, None), get(4, 5, doc(1, 1))]),
        ),
        (
            "a_refused_write_is_there",
            of([put(1, 2).fails(false), get(3, 4, doc(1, 1))]),
            of([put(1, 2).fails(true), get(3, 4, doc(1, 1))]),
        ),
        (
            "a_write_without_an_answer_comes_and_goes",
            of([put(1, 2).fails(true), get(3, 4, doc(1, 1)), get(5, 6, None)]),
            of([put(1, 2).fails(true), get(3, 4, None), get(5, 6, doc(1, 1))]),
        ),
        (
            "a_write_without_an_answer_is_done_twice",
            of([put(1, 2).fails(true), get(3, 4, doc(1, 1)), get(5, 6, doc(2, 1))]),
            of([put(1, 2).fails(true), get(3, 4, doc(1, 1)), get(5, 6, doc(1, 1))]),
        ),
        (
            "a_store_of_a_key_is_done_twice",
            of([stored(), one(3, 4, store(0)).is(id("b"))]),
            of([stored(), one(3, 4, store(0)).is(id("a"))]),
        ),
        (
            "a_key_stands_for_two_triggers",
            of([stored(), one(3, 4, store(1)).is(id("a"))]),
            of([stored(), one(3, 4, store(1)).is(Answer::Conflict)]),
        ),
    ]
}

fn revisions() -> Vec<Pair> {
    let stored = || one(1, 2, store(0)).is(id("a"));
    let absent = |from, to| one(from, to, put(Wanted::Absent));
    let update = |from, to, if_revision| one(from, to, What::Update { id: "a".to_owned(), if_revision });
    let get = |from, to, found| one(from, to, What::Get { id: Some("a".to_owned()) }).finds(found);
    vec![
        (
            "an_update_is_lost",
            of([stored(), update(3, 9, None).is(rev(2)), update(4, 8, None).is(rev(3)), get(10, 11, mem(3, &[4]))]),
            of([stored(), update(3, 9, None).is(rev(2)), update(4, 8, None).is(rev(3)), get(10, 11, mem(3, &[3, 4]))]),
        ),
        (
            "a_revision_is_given_twice",
            of([stored(), update(3, 9, None).is(rev(2)), update(4, 8, None).is(rev(2))]),
            of([stored(), update(3, 9, None).is(rev(2)), update(4, 8, None).is(rev(3))]),
        ),
        (
            "a_revision_is_left_out",
            of([stored(), update(3, 4, None).is(rev(3))]),
            of([stored(), update(3, 4, None).is(rev(2))]),
        ),
        (
            "two_updates_of_one_revision_win",
            of([stored(), update(3, 9, Some(1)).is(rev(2)), update(4, 8, Some(1)).is(rev(3))]),
            of([stored(), update(3, 9, Some(1)).is(rev(2)), update(4, 8, Some(1)).is(Answer::Conflict)]),
        ),
        (
            "two_puts_find_nothing",
            of([absent(1, 4).is(rev(1)), absent(2, 3).is(rev(1))]),
            of([absent(1, 4).is(rev(1)), absent(2, 3).is(Answer::Conflict)]),
        ),
        (
            "a_conflict_with_nobody",
            of([stored(), update(3, 4, Some(1)).is(Answer::Conflict)]),
            of([stored(), update(3, 6, Some(1)).is(Answer::Conflict), update(4, 5, None).is(rev(2))]),
        ),
    ]
}

fn removals() -> Vec<Pair> {
    let (stored, put) = (|| one(1, 2, store(0)).is(id("a")), |from, to| one(from, to, put(Wanted::Any)));
    let named = || Some("a".to_owned());
    let erased = || one(3, 4, What::Erase { id: named() }).is(Answer::Gone(true));
    let removed = |from, to, was_there| one(from, to, What::Remove).is(Answer::Gone(was_there));
    let dropped = |from, to| one(from, to, What::Erase { id: None }).is(Answer::Gone(true));
    vec![
        (
            "an_erased_memory_is_read",
            of([stored(), erased(), one(5, 6, What::Get { id: named() }).finds(mem(1, &[]))]),
            of([stored(), erased(), one(5, 6, What::Get { id: named() }).is(Answer::Erased)]),
        ),
        (
            "a_memory_is_erased_under_another_id",
            of([stored(), erased(), one(5, 6, What::Get { id: Some("b".to_owned()) }).is(Answer::Erased)]),
            of([stored(), erased(), one(5, 6, What::Get { id: Some("b".to_owned()) }).finds(None)]),
        ),
        (
            "an_erased_memory_comes_back",
            of([stored(), erased(), one(5, 6, store(0)).is(id("b"))]),
            of([stored(), erased(), one(5, 6, store(0)).is(Answer::Erased)]),
        ),
        (
            "a_removed_document_is_read",
            of([put(1, 2).is(rev(1)), removed(3, 4, true), one(5, 6, get()).finds(doc(1, 1))]),
            of([put(1, 2).is(rev(1)), removed(3, 6, true), one(4, 5, get()).finds(doc(1, 1))]),
        ),
        (
            "a_document_is_removed_twice",
            of([put(1, 2).is(rev(1)), removed(3, 6, true), removed(4, 5, true)]),
            of([put(1, 2).is(rev(1)), removed(3, 6, true), removed(4, 5, false)]),
        ),
        (
            "an_erased_document_goes_on",
            of([put(1, 2).is(rev(1)), dropped(3, 6), dropped(4, 8), put(5, 9).is(rev(1)), put(7, 10).is(rev(3))]),
            of([put(1, 2).is(rev(1)), dropped(3, 6), dropped(4, 8), put(5, 9).is(rev(1)), put(7, 10).is(rev(1))]),
        ),
        (
            "a_document_goes_on_behind_its_removal",
            of([put(1, 2).is(rev(1)), removed(3, 4, true), put(5, 6).is(rev(2))]),
            of([put(1, 2).is(rev(1)), removed(3, 4, true), put(5, 6).is(rev(1))]),
        ),
    ]
}

fn pages() -> Vec<Pair> {
    let at = |space: &str| one(1, 2, What::Put { space: space.to_owned(), expect: Wanted::Any }).is(rev(1));
    let row = |space: &str, created_at| {
        let version = Version { space: space.to_owned(), ..doc(1, 1).expect("a version") };
        Row { record: "d0".to_owned(), created_at, version }
    };
    let walk = |pages: Vec<Vec<Row>>| many(3, 8, pages);
    let removed = || one(4, 5, What::Remove).is(Answer::Gone(true));
    vec![
        (
            "under_finds_a_sibling",
            of([at("h-10"), walk(vec![vec![row("h-10", 0)]])]),
            of([at("h-1/y"), walk(vec![vec![row("h-1/y", 0)]])]),
        ),
        ("under_misses_what_is_below", of([at("h-1-x"), walk(vec![vec![]])]), of([at("h-10"), walk(vec![vec![]])])),
        (
            "a_walk_misses_a_row",
            of([at("h-1"), walk(vec![vec![], vec![]])]),
            of([at("h-1"), removed(), walk(vec![vec![], vec![]])]),
        ),
        (
            "a_walk_gives_a_row_twice",
            of([at("h-1"), walk(vec![vec![row("h-1", 0)], vec![row("h-1", 0)]])]),
            of([at("h-1"), walk(vec![vec![row("h-1", 0)], vec![]])]),
        ),
        (
            "a_page_has_a_row_that_nobody_wrote",
            of([walk(vec![vec![row("h-1", 0)]])]),
            of([at("h-1"), walk(vec![vec![row("h-1", 0)]])]),
        ),
    ]
}

fn across() -> Vec<Pair> {
    let there = |told: Vec<Told>| {
        let put = |from, to| one(from, to, put(Wanted::Any));
        let row = Row { record: "d0".to_owned(), created_at: 0, version: doc(2, 3).expect("a version") };
        let last = Call { client: LAST, ..many(5, 6, vec![vec![row]]) };
        History { told, ..of([put(1, 2).is(rev(1)), put(3, 4).is(rev(2)), last]) }
    };
    let now = |revision| Told::Now { id: "d0".to_owned(), revision };
    let gone = || Told::Gone { id: "d0".to_owned() };
    let reset = |at| Told::Reset { at };
    let versions = |revisions: &[u64]| History {
        versions: BTreeMap::from([("m0".to_owned(), revisions.to_vec())]),
        ..History::default()
    };
    let kept = |revisions: &[u64]| History {
        versions: BTreeMap::from([("d0".to_owned(), revisions.to_vec())]),
        ..there(vec![now(2)])
    };
    let over = |at| History { failovers: vec![(5, 6)], ..there(vec![reset(at), now(2)]) };
    let fails = |kind: &str| Call { outcome: Outcome::NotDone(kind.to_owned()), ..one(1, 2, get()) };
    let fails_last = |client| of([Call { client, ..fails("Unavailable") }]);
    vec![
        ("a_history_has_a_hole", versions(&[3, 1]), versions(&[3, 2, 1])),
        ("a_history_lacks_its_beginning", versions(&[3, 2]), versions(&[])),
        ("a_history_lacks_its_end", kept(&[1]), kept(&[2, 1])),
        ("a_history_has_nothing", kept(&[]), kept(&[2, 1])),
        ("a_feed_has_a_gap", there(vec![now(1)]), there(vec![now(2)])),
        ("a_feed_tells_of_nothing", there(vec![]), there(vec![now(1), now(2)])),
        ("a_feed_misses_a_removal", of_told(vec![now(2)]), of_told(vec![now(2), gone()])),
        ("a_feed_goes_back", there(vec![now(2), now(1), now(2)]), there(vec![now(2), gone(), now(1), now(2)])),
        ("a_feed_is_lost", there(vec![now(1), reset(3), now(2)]), there(vec![now(1), now(2), now(2)])),
        ("a_feed_is_lost_before_a_failover", over(4), over(7)),
        ("the_last_read_fails", fails_last(LAST), fails_last(0)),
        ("an_error_comes_from_nowhere", of([fails("Unexpected")]), of([fails("Unavailable")])),
    ]
}

fn failovers() {
    let put = |from, to| one(from, to, put(Wanted::Any));
    let get = |from, to, found| one(from, to, get()).finds(found);
    let over = |history| History { failovers: vec![(10, 20)], ..history };
    let allows = |history: &History, loss, past| {
        let verdict = judge(history, Setting { loss, past });
        assert_eq!(verdict.anomalies.len() + verdict.allowed.len(), 1, "{verdict:#?}");
        verdict.anomalies.is_empty()
    };
    let acknowledged = over(of([put(1, 2).is(rev(1)), put(3, 4).is(rev(2)), get(21, 22, doc(1, 1))]));
    assert!(!allows(&acknowledged, Loss::Nothing, Past::Refusals));
    assert!(!allows(&acknowledged, Loss::Unacknowledged, Past::Refusals));
    assert!(allows(&acknowledged, Loss::Any, Past::Nothing));
    let shown = over(of([put(1, 2).is(rev(1)), put(3, 4).fails(true), get(5, 6, doc(2, 3)), get(21, 22, doc(1, 1))]));
    assert!(!allows(&shown, Loss::Nothing, Past::Refusals));
    assert!(allows(&shown, Loss::Unacknowledged, Past::Nothing));
    let meanwhile = over(of([put(11, 12).is(rev(1)), get(21, 22, None)]));
    assert!(!allows(&meanwhile, Loss::Unacknowledged, Past::Refusals));
    assert!(allows(&meanwhile, Loss::Any, Past::Nothing), "acknowledged while another takes over, and lost");
    let known = |from, to, found| one(from, to, What::Get { id: Some("a".to_owned()) }).finds(found);
    let shown = over(of([one(3, 4, store(0)).fails(true), known(5, 6, mem(1, &[])), known(21, 22, None)]));
    assert!(allows(&shown, Loss::Unacknowledged, Past::Nothing), "a read has shown a store without an answer");
    let under_way = one(9, 22, store(0)).is(id("a"));
    let repeated = over(of([under_way, known(11, 12, mem(1, &[])), known(13, 14, None), known(23, 24, mem(1, &[]))]));
    assert!(!allows(&repeated, Loss::Nothing, Past::Nothing));
    assert!(
        allows(&repeated, Loss::Unacknowledged, Past::Nothing),
        "what was under way is repeated behind the failover"
    );
    let others = (3..9).map(|from| put(from, 9).fails(true));
    let lost = of([put(1, 2).is(rev(1)), get(21, 22, None)].into_iter().chain(others));
    assert!(!allows(&over(lost), Loss::Unacknowledged, Past::Refusals), "beside many without an answer");
    let past = |from, to| over(of([put(1, 2).is(rev(1)), put(11, 12).is(rev(2)), get(from, to, doc(1, 1))]));
    assert!(!allows(&past(14, 15), Loss::Unacknowledged, Past::Nothing));
    assert!(allows(&past(14, 15), Loss::Nothing, Past::Refusals));
    assert!(!allows(&past(21, 22), Loss::Unacknowledged, Past::Refusals));
    assert!(allows(&past(14, 15), Loss::Nothing, Past::Reads));
    let refused = over(of([put(1, 2).is(rev(1)), one(14, 15, What::Remove).is(Answer::Gone(false))]));
    assert!(!allows(&refused, Loss::Nothing, Past::Reads));
    assert!(allows(&refused, Loss::Nothing, Past::Refusals), "by a server that does not know that it is replaced");
    let erased = one(23, 24, What::Erase { id: Some("b".to_owned()) }).is(Answer::Gone(true));
    let stored = |from, to, name| one(from, to, store(0)).is(id(name));
    let again = over(of([stored(3, 4, "a"), stored(21, 22, "b"), erased, known(25, 26, None)]));
    assert!(!allows(&again, Loss::Unacknowledged, Past::Refusals));
    assert!(allows(&again, Loss::Any, Past::Nothing), "the memory that was lost is not the one that was erased");
    let before = over(of([put(1, 2).is(rev(1)), put(3, 4).is(rev(2)), get(5, 6, doc(1, 1))]));
    assert!(!allows(&before, Loss::Any, Past::Refusals), "nothing was lost yet");
}

/// Each write during a failover may be lost, or done again behind it.
fn given_up() {
    let puts = (1..=24).map(|number| one(20 + 2 * number, 21 + 2 * number, put(Wanted::Any)).is(rev(number)));
    let wrong = one(101, 102, get()).finds(doc(30, 22));
    let history = History { failovers: vec![(20, 100)], ..of(puts.chain([wrong])) };
    let counts = |history: &History, loss| {
        let verdict = judge(history, Setting { loss, past: Past::Nothing });
        (verdict.anomalies.len(), verdict.undecided.len())
    };
    assert_eq!(counts(&history, Loss::Any), (0, 1));
    assert_eq!(counts(&history, Loss::Unacknowledged), (1, 0), "an acknowledged write is not lost");
    let late = History { failovers: vec![(103, 200)], ..history };
    assert_eq!(counts(&late, Loss::Any), (1, 0), "nothing was lost before the failover");
}

/// A client may be far ahead of another one in the plan, so the numbers of calls say nothing about their order.
fn last_ids() {
    let stored = |number, from, answer| Call { number, ..one(from, from + 1, store(0)).is(id(answer)) };
    let known = |calls: Vec<Call>| known_ids(&of(calls))["m0"].clone();
    assert_eq!(known(vec![stored(2, 1, "a"), stored(1, 3, "b")]).as_deref(), Some("b"));
    let row = Row { record: "m0".to_owned(), created_at: 0, version: mem(1, &[]).expect("a version") };
    assert_eq!(known(vec![stored(1, 3, "b"), many(5, 6, vec![vec![row]])]).as_deref(), Some("a"));
}

fn smallest() {
    let put = |from, to| one(from, to, put(Wanted::Any));
    let get = |from, to, found| one(from, to, get()).finds(found);
    let calls = [
        get(1, 2, None),
        put(3, 4).is(rev(1)),
        get(5, 6, doc(1, 3)),
        put(7, 8).is(rev(2)),
        get(9, 10, doc(1, 3)),
        get(11, 12, doc(2, 7)),
        put(13, 14).is(rev(3)),
    ];
    let verdict = judge(&of(calls), Setting::STRICT);
    let shown: Vec<_> = verdict.anomalies[0].shown_by.iter().map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(shown, [Some("3"), Some("7"), Some("9")], "{verdict:#?}");
}

/// A call on the one record of its kind, whose number is its start.
fn one(started: u64, ended: u64, what: What) -> Call {
    let is_memory = matches!(
        &what,
        What::Store { .. } | What::Update { .. } | What::Get { id: Some(_) } | What::Erase { id: Some(_) }
    );
    let record = if is_memory { "m0" } else { "d0" }.to_owned();
    let (action, outcome) = (Action::One { record, what }, Outcome::NotDone("Unavailable".to_owned()));
    Call { number: started as u32, client: 0, action, started, ended: Some(ended), outcome }
}

/// A walk along the documents under `h-1`, by pages that take the same time.
fn many(started: u64, ended: u64, rows: Vec<Vec<Row>>) -> Call {
    let pages = rows.into_iter().map(|rows| Page { started, ended, rows }).collect();
    let action = Action::Many { documents: true, under: "h-1".to_owned(), how: How::Walk(1) };
    let outcome = Outcome::Done(Answer::Pages { pages, is_complete: true });
    Call { number: started as u32, client: 0, action, started, ended: Some(ended), outcome }
}

impl Call {
    fn is(self, answer: Answer) -> Self {
        Self { outcome: Outcome::Done(answer), ..self }
    }

    fn finds(self, version: Option<Version>) -> Self {
        self.is(Answer::Found(version))
    }

    fn fails(self, is_unknown: bool) -> Self {
        let outcome = if is_unknown { Outcome::Unknown } else { Outcome::NotDone };
        Self { outcome: outcome("Unavailable".to_owned()), ..self }
    }
}

fn of(calls: impl IntoIterator<Item = Call>) -> History {
    // There is no watch, so every final state counts as delivered.
    History { calls: calls.into_iter().map(|call| (call.number, call)).collect(), ..History::default() }
}

/// The changes of a document that does not exist in the end.
fn of_told(told: Vec<Told>) -> History {
    History { told, ..History::default() }
}

fn store(variant: u8) -> What {
    What::Store { space: "h-1".to_owned(), variant }
}

fn put(expect: Wanted) -> What {
    What::Put { space: "h-1".to_owned(), expect }
}

fn get() -> What {
    What::Get { id: None }
}

fn id(id: &str) -> Answer {
    Answer::Stored(id.to_owned())
}

fn rev(revision: u64) -> Answer {
    Answer::Revision(revision)
}

fn doc(revision: u64, write: u32) -> Option<Version> {
    let (id, variant, space, writes) = (None, 0, "h-1".to_owned(), [write].into());
    Some(Version { id, variant, space, revision, writes })
}

fn mem(revision: u64, writes: &[u32]) -> Option<Version> {
    let (id, variant, space, writes) = (Some("a".to_owned()), 0, "h-1".to_owned(), writes.iter().copied().collect());
    Some(Version { id, variant, space, revision, writes })
}
