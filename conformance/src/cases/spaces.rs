//! S1 to S7: what selectors find.

use std::collections::BTreeSet;

use memory_core::{BOUNDARIES, MemoryPatch, Order, SpaceId, SpaceSelector};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{ids, metadata, new_memory, query, spaces, store_each, walk};
use crate::golden::{self, SelectorLine};

chapter!("spaces":
    patterns_follow_the_table ["S4", "S5"],
    prefixes_and_paths_follow_the_table ["S2", "S3"],
    under_never_leaks_a_sibling ["S3"],
    under_knows_three_boundaries ["S3"],
    a_prefix_finds_bytes_and_no_wildcards ["S2"],
    a_prefix_ends_before_its_neighbors ["S2"],
    a_prefix_over_many_siblings_finds_all ["S2"],
    a_prefix_over_many_siblings_keeps_the_order ["S2", "Q4", "Q6"],
    a_parent_with_few_rows_above_many_is_found ["S1", "S3"],
    case_matters_everywhere ["S1", "S2", "S3", "S4", "S5"],
    characters_of_all_planes_are_themselves ["S1", "S2", "S3", "S4", "V2"],
    different_ids_never_share_a_key ["S6", "S1", "S2", "S3", "S4", "V2"],
    an_update_hits_the_id_and_not_its_double ["S6"],
    the_deepest_and_longest_ids_work ["S1", "S3", "V2"],
    a_glob_may_start_with_a_literal_or_not ["S4"],
    a_regex_may_be_anchored_or_not ["S5"],
    hostile_patterns_come_to_an_end ["S4", "S5"],
    patterns_of_one_kib_work ["S7"],
);

/// S4, S5: globs and regular expressions find what `golden/patterns.json` says (one engine read a pattern as a glob, another
/// as a regex).
async fn patterns_follow_the_table(stage: Stage) -> CaseResult {
    check_table(&stage, &golden::patterns()).await
}

/// S2, S3: prefixes and paths find what `golden/prefixes.json` says.
async fn prefixes_and_paths_follow_the_table(stage: Stage) -> CaseResult {
    check_table(&stage, &golden::prefixes()).await
}

/// S3: a path finds itself and what is below it, and never a sibling that starts with the same bytes (a tenant that read
/// another's memories, CVE-2026-71433).
async fn under_never_leaks_a_sibling(stage: Stage) -> CaseResult {
    let inside =
        ["guild-1", "guild-1-", "guild-1-general", "guild-1-general-7", "guild-1/x", "guild-1:x", "guild-1--x"];
    let outside =
        ["guild", "guild-", "guild-12", "guild-12-general", "guild-1a", "guild-10-1", "guild-1_x", "guild-1.x"];
    let more = ["guild-1 x", "guild-1é", "guild-2", "Guild-1-x", "xguild-1", "x-guild-1-x", "guild-1\u{2010}x"];
    check_finds(&stage, &[&inside[..], &outside, &more].concat(), &[(SpaceSelector::under("guild-1")?, &inside)]).await
}

/// S3: each of `-`, `/` and `:` begins what lies below a path; a path that ends with one finds only the ids that start with that path.
async fn under_knows_three_boundaries(stage: Stage) -> CaseResult {
    let table: [(_, &[_]); 4] = [
        (SpaceSelector::under("a")?, &["a-", "a/", "a:", "a-b", "a/b", "a:b", "a"]),
        (SpaceSelector::under("a-")?, &["a-", "a-b"]),
        (SpaceSelector::under("a/")?, &["a/", "a/b"]),
        (SpaceSelector::under("a:")?, &["a:", "a:b"]),
    ];
    check_finds(&stage, &["a-", "a/", "a:", "a-b", "a/b", "a:b", "a", "ab"], &table).await
}

/// S2: a prefix finds each id that continues it, at any depth. The special characters of LIKE, GLOB, regular expressions and Redis patterns
/// mean themselves in it.
async fn a_prefix_finds_bytes_and_no_wildcards(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let special =
        ["%", "_", "\\", "*", "?", "[", "]", "[a]", "^", "$", ".", "+", "|", "(", "{", "'", "\"", "\\%", "%%"];
    let special = special.map(|special| format!("a{special}b"));
    #[rustfmt::skip]
    let others = [
        "a", "ab", "axb", "axxb", "abb", "a-", "a-b", "a-b-c", "a-bc", "a-b-c-d", "a-a", "a-c", "pl", "plugin", "plugin-a",
        "plugin-a-b-c-d-e", "plumber-x", "plugin/a:b", "p-x", "pm", "-pl", "PL",
    ];
    let all: Vec<_> = special.iter().map(String::as_str).chain(others).collect();
    store_each(&*provider, all.iter().copied()).await?;
    let prefixes = special.iter().map(|id| &id[..id.len() - 1]).chain(["a-b", "a-", "pl", "p"]);
    for prefix in prefixes {
        let found = walk(&*provider, |query| query.prefix(prefix).order(Order::OldestFirst).limit(3)).await?;
        let expected: Vec<_> = all.iter().copied().filter(|id| id.starts_with(prefix)).collect();
        assert_eq!(spaces(&found), expected, "prefix {prefix:?}");
    }
    Ok(())
}

/// S2: if an engine reads a prefix as a range of keys, the range ends at the right byte, also where UTF-8 needs one byte more.
async fn a_prefix_ends_before_its_neighbors(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    #[rustfmt::skip]
    let letters = [
        '~', '\u{a0}', 'é', 'ê', '\u{bf}', '\u{c0}', '\u{7ff}', '\u{800}', '\u{fff}', '\u{1000}', '\u{d7ff}', '\u{e000}',
        '\u{ffff}', '\u{10000}', '\u{fffff}', '\u{100000}', '\u{10ffff}', '!', 'z', '{',
    ];
    let ids = letters.map(|letter| [format!("caf{letter}"), format!("caf{letter}-x"), format!("caf{letter}x-y")]);
    store_each(&*provider, ids.as_flattened().iter().map(String::as_str)).await?;
    for (letter, expected) in letters.iter().zip(&ids) {
        let found = walk(&*provider, |query| query.prefix(format!("caf{letter}")).order(Order::OldestFirst)).await?;
        assert_eq!(spaces(&found), *expected, "prefix caf{}", letter.escape_unicode());
    }
    Ok(())
}

/// S2: more than 100 siblings share a prefix, with spaces below them or without.
async fn a_prefix_over_many_siblings_finds_all(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let siblings = (0..150).map(|number| format!("plugin-guild{number:03}-general"));
    let leaves = (0..150).map(|number| format!("room-message{number:03}"));
    let ids: Vec<_> = siblings.chain(leaves).collect();
    store_each(&*provider, ids.iter().map(String::as_str)).await?;
    store_each(&*provider, ["plugin-guest-x", "plugin", "plugin-gulf", "plugins-guild1-x"]).await?;
    store_each(&*provider, ["room", "room-", "room-messag", "rooms"]).await?;
    for (prefix, expected) in [
        ("plugin-guild", 150),
        ("plugin-guild0", 100),
        ("plugin-guild14", 10),
        ("plugin-gu", 152),
        ("room-message", 150),
        ("room-message1", 50),
        ("room-message149", 1),
        ("room-message150", 0),
    ] {
        let found = walk(&*provider, |query| query.prefix(prefix).limit(40)).await?;
        assert!(found.iter().all(|memory| memory.space_id.as_str().starts_with(prefix)), "{prefix}");
        assert_eq!(BTreeSet::from_iter(spaces(&found)).len(), expected, "{prefix}");
        assert_eq!(found.len(), expected, "{prefix}: a row came twice");
    }
    Ok(())
}

/// S2: rows of many siblings come in the order of their times, with pages that end between siblings.
async fn a_prefix_over_many_siblings_keeps_the_order(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows = (0..450).map(|number| new_memory(&format!("p-g{}-{}", number % 150, number / 7), (number * 11) % 97));
    provider.store_many(rows.collect()).await?;
    let mut all = walk(&*provider, |query| query.all().limit(1_000)).await?;
    for order in [Order::NewestFirst, Order::OldestFirst] {
        let found = walk(&*provider, |query| query.prefix("p-g").order(order).limit(37)).await?;
        assert_eq!(ids(&found), ids(&all), "{order:?}");
        all.reverse();
    }
    let tens = walk(&*provider, |query| query.prefix("p-g1").limit(37)).await?;
    all.retain(|memory| memory.space_id.as_str().starts_with("p-g1"));
    assert_eq!(ids(&tens), ids(&all));
    Ok(())
}

/// S1, S3: the few rows of a parent are found although thousands lie below it, and a path that ends with a boundary finds only those below.
async fn a_parent_with_few_rows_above_many_is_found(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let own = provider.store_many((0..3).map(|time| new_memory("guild-1", time)).collect()).await?;
    let below = (0..3_000).map(|time| new_memory(&format!("guild-1-{}", time % 1_000), 10 + time));
    let below = provider.store_many(below.collect()).await?;
    let found = walk(&*provider, |query| query.exact("guild-1").limit(2)).await?;
    assert_eq!(ids(&found), [own[2], own[1], own[0]]);
    let newest = provider.query(&query(|query| query.under("guild-1").limit(2))).await?;
    assert_eq!(ids(&newest.memories), [below[2_999], below[2_998]]);
    let oldest = provider.query(&query(|query| query.under("guild-1").order(Order::OldestFirst).limit(4))).await?;
    assert_eq!(ids(&oldest.memories), [own[0], own[1], own[2], below[0]]);
    let found = walk(&*provider, |query| query.under("guild-1-").order(Order::OldestFirst).limit(1_000)).await?;
    assert_eq!(ids(&found), below);
    let found = walk(&*provider, |query| query.under("guild-1-7")).await?;
    assert_eq!(ids(&found), [below[2_007], below[1_007], below[7]]);
    Ok(())
}

/// S1 to S5: `User` is not `user` (LIKE that ignores case on one engine).
async fn case_matters_everywhere(stage: Stage) -> CaseResult {
    let table: [(_, &[_]); 8] = [
        (SpaceSelector::exact("User/1")?, &["User/1"]),
        (SpaceSelector::under("User")?, &["User/1"]),
        (SpaceSelector::prefix("Us")?, &["User/1"]),
        (SpaceSelector::glob("Us*")?, &["User/1"]),
        (SpaceSelector::glob("*[U]se*")?, &["User/1"]),
        (SpaceSelector::regex("^Us")?, &["User/1"]),
        (SpaceSelector::prefix("Ä")?, &["Äser/1"]),
        (SpaceSelector::glob("ä*")?, &["äser/1"]),
    ];
    check_finds(&stage, &["user/1", "User/1", "USER/1", "äser/1", "Äser/1"], &table).await
}

/// S1 to S4: in exact, prefix, under and an escaped glob, each printable ASCII character and 200 from all over Unicode mean themselves
/// (graphiti#1269: escaping missed some).
async fn characters_of_all_planes_are_themselves(stage: Stage) -> CaseResult {
    let all = (0x80_u32..=0x10_FFFF).step_by(5_557).chain([0xA0, 0xAD, 0x300, 0x200B, 0x202E, 0xFEFF, 0xFFFD, 0x1F600]);
    let letters = all.filter_map(char::from_u32).chain(' '..='~').filter(|letter| !letter.is_control());
    let ids: BTreeSet<_> = letters.map(|letter| format!("sweep.{letter}.end")).collect();
    assert!(ids.len() >= 290, "{} characters", ids.len());
    check_apart(&stage, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await
}

/// S1 to S4, S6: ids that are made of separators, escapes and look-alikes stay apart for exact, prefix, under and glob (two paths, one key;
/// a folding that turned a full-width percent sign into a wildcard). An id that looks like SQL, a Redis command or an operator of a
/// document database is an ordinary id.
async fn different_ids_never_share_a_key(stage: Stage) -> CaseResult {
    check_apart(&stage, &[&DOUBLES[..], &LOOKALIKES, &HOSTILE].concat()).await
}

/// S6: after an update of the memory in each of the spaces [`DOUBLES`], each space has its own memory, with its own metadata.
async fn an_update_hits_the_id_and_not_its_double(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = store_each(&*provider, DOUBLES).await?;
    for (number, id) in stored.iter().enumerate() {
        let patch = MemoryPatch::new().replace_metadata(metadata(&format!(r#"{{"number":{number}}}"#)));
        provider.update(*id, patch).await?;
    }
    for (number, id) in DOUBLES.iter().enumerate() {
        let found = walk(&*provider, |query| query.exact(id)).await?;
        let found: Vec<_> = found.iter().map(|memory| (memory.space_id.as_str(), memory.metadata.as_str())).collect();
        assert_eq!(found, [(*id, format!(r#"{{"number":{number}}}"#).as_str())]);
    }
    Ok(())
}

/// V2, S1, S3: ids of 33 levels and of 512 bytes are found by their exact id, and by under and prefix of each ancestor (payload#8787: too
/// large to index).
async fn the_deepest_and_longest_ids_work(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let deepest = (0..33).map(|level| format!("l{level}")).collect::<Vec<_>>().join("-");
    let separators = "-/:".repeat(11)[..32].to_owned();
    let longest = format!("{}-{}", "é".repeat(200), "z".repeat(111));
    let undivided = "\u{1f600}".repeat(128);
    let widest = format!("{}{}", "-a".repeat(32), "b".repeat(448));
    let both = format!("{}{}", "part-name-/part:".repeat(8), "x".repeat(512 - 128));
    assert_eq!([&longest, &undivided, &widest, &both].map(String::len), [512; 4]);
    assert_eq!([&deepest, &separators, &widest, &both].map(|id| id.matches(BOUNDARIES).count()), [32; 4]);
    for id in [&deepest, &separators, &longest, &undivided, &widest, &both] {
        let stored = provider.store(new_memory(id, 1)).await?;
        assert_eq!(provider.get(stored).await?.map(|memory| memory.space_id), Some(SpaceId::parse(id)?));
        let found = walk(&*provider, |query| query.exact(id)).await?;
        assert_eq!(ids(&found), [stored]);
        let space = SpaceId::parse(id)?;
        for path in space.ancestors().filter(|path| !path.is_empty()).chain([id.as_str()]) {
            let found = walk(&*provider, |query| query.under(path)).await?;
            assert!(ids(&found).contains(&stored), "{id} is under {path}");
            let found = walk(&*provider, |query| query.prefix(path)).await?;
            assert!(ids(&found).contains(&stored), "{id} starts with {path}");
        }
    }
    Ok(())
}

/// S4: a glob finds the same whether an engine can start from a literal head or not.
async fn a_glob_may_start_with_a_literal_or_not(stage: Stage) -> CaseResult {
    let all = ["plugin-1-a", "plugin-1-b", "plugin-2-a", "plugin", "plug-1-a", "plugin*", "x"];
    let table: [(_, &[_]); 10] = [
        (SpaceSelector::glob("plugin-1-a")?, &["plugin-1-a"]),
        (SpaceSelector::glob("plugin-1-*")?, &["plugin-1-a", "plugin-1-b"]),
        (SpaceSelector::glob("plugin-?-a")?, &["plugin-1-a", "plugin-2-a"]),
        (SpaceSelector::glob("plug*-a")?, &["plugin-1-a", "plugin-2-a", "plug-1-a"]),
        (SpaceSelector::glob("*-a")?, &["plugin-1-a", "plugin-2-a", "plug-1-a"]),
        (SpaceSelector::glob("?lugin-[12]-[!b-z]")?, &["plugin-1-b"]),
        (SpaceSelector::glob("[p]lugin*")?, &["plugin-1-a", "plugin-1-b", "plugin-2-a", "plugin", "plugin*"]),
        (SpaceSelector::glob("plugin[*]")?, &["plugin*"]),
        (SpaceSelector::glob("*")?, &all),
        (SpaceSelector::glob("plugin-[")?, &[]),
    ];
    check_finds(&stage, &all, &table).await
}

/// S5: a regular expression finds the same whether an engine can start from a literal head or not.
async fn a_regex_may_be_anchored_or_not(stage: Stage) -> CaseResult {
    let all = ["plugin-1-a", "plugin-12-a", "plugin", "my-plugin-1", "PLUGIN-1", "pluginé"];
    let table: [(_, &[_]); 10] = [
        (SpaceSelector::regex("^plugin-1")?, &["plugin-1-a", "plugin-12-a"]),
        (SpaceSelector::regex("plugin-1")?, &["plugin-1-a", "plugin-12-a", "my-plugin-1"]),
        (SpaceSelector::regex("^plugin-1-")?, &["plugin-1-a"]),
        (SpaceSelector::regex("^plugin$")?, &["plugin"]),
        (SpaceSelector::regex("^plugin-1?")?, &["plugin-1-a", "plugin-12-a"]),
        (SpaceSelector::regex("^plugin|^my")?, &["plugin-1-a", "plugin-12-a", "plugin", "my-plugin-1", "pluginé"]),
        (SpaceSelector::regex("(?i)^plugin-1$")?, &["PLUGIN-1"]),
        (SpaceSelector::regex("^pluginé")?, &["pluginé"]),
        (SpaceSelector::regex("^plugin[é-]")?, &["plugin-1-a", "plugin-12-a", "pluginé"]),
        (SpaceSelector::regex(".")?, &all),
    ];
    check_finds(&stage, &all, &table).await
}

/// S4, S5: patterns that send a backtracking matcher into exponential time are answered, rightly.
async fn hostile_patterns_come_to_an_end(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (long, ending) = ("a".repeat(512), format!("{}b", "a".repeat(511)));
    store_each(&*provider, [long.as_str(), &ending]).await?;
    let stars = "*a".repeat(500);
    let globs = [format!("{stars}*c"), format!("{stars}*b"), format!("{stars}*")];
    for (glob, expected) in globs.iter().zip([0, 1, 2]) {
        assert_eq!(walk(&*provider, |query| query.glob(glob)).await?.len(), expected, "a glob of {} bytes", glob.len());
    }
    for (regex, expected) in [
        ("^(a+)+$", 1),
        ("^(a|aa)*c$", 0),
        ("(a*)*b$", 1),
        ("^(([a-z])+.)+[A-Z]$", 0),
        ("(.*){1,32}b", 1),
        ("^(a?){100}a{100}", 2),
    ] {
        assert_eq!(walk(&*provider, |query| query.regex(regex)).await?.len(), expected, "{regex}");
    }
    Ok(())
}

/// S7: a prefix, path, glob or regex of exactly 1 KiB is valid.
async fn patterns_of_one_kib_work(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    store_each(&*provider, ["b", "ab"]).await?;
    let long = "a".repeat(1_024);
    let nothing = walk(&*provider, |query| query.prefix(&long).under(&long).glob(&long)).await?;
    assert_eq!(nothing, []);
    let stars = "*".repeat(1_023) + "b";
    assert_eq!(walk(&*provider, |query| query.glob(&stars)).await?.len(), 2);
    let regex = format!("^b$|{}", "a".repeat(1_020));
    assert_eq!(spaces(&walk(&*provider, |query| query.regex(&regex)).await?), ["b"]);
    Ok(())
}

/// Ids that become equal if separators are joined, escaped, cut off or folded.
const DOUBLES: [&str; 38] = [
    "a", "a-", "a--", "-", "--", "---", "-a", "a-b", "a--b", "a/b", "a:b", "A", "A-b", "a-B", "a/", "a:", "/", ":",
    "-/:", "a/b:c", "a:b/c", "a-b-c", "a--b-c", "a-b--c", "ab", "ab-c", "\u{e9}", "e\u{301}", "~41", "~2D", "a~2Db",
    "%61", "a%2Db", "\\u0061", "a b", "a ", " a", "a.b",
];
/// Composed and decomposed letters, full-width forms, ligatures, other cases, and characters that are ignored.
#[rustfmt::skip]
const LOOKALIKES: [&str; 20] = [
    "caf\u{e9}", "cafe\u{301}", "cafe", "\u{fb01}n", "fin", "a\u{ff05}", "a%", "\u{212b}", "\u{c5}", "A\u{30a}",
    "stra\u{df}e", "strasse", "I", "\u{130}", "\u{131}", "i", "\u{ad}i", "i\u{200b}", " i", "i\u{a0}",
];
/// Ids that mean something in SQL, Redis, MongoDB, a pattern or a template.
#[rustfmt::skip]
const HOSTILE: [&str; 28] = [
    "' OR '1'='1", "'; DROP TABLE memories; --", "\" OR \"\"=\"", "$where", "{\"$gt\":\"\"}",
    "a') UNION SELECT 1 --", "%' ESCAPE '\\", "*2 FLUSHALL", "{tag}x", "}{", "${jndi}", "@space:{a|b}", "(a|b)",
    "a\\'b", "`id`", "x'00'", "?", "$1", " ", "  ", "%", "a\\%", "a*", "[a]", "null", "0", "00",
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
];

/// Checks each line of the table, and each of its selectors on the spaces of all lines.
async fn check_table(stage: &Stage, table: &[SelectorLine]) -> CaseResult {
    let provider = stage.open().await?;
    let all: BTreeSet<_> = table.iter().map(|line| line.space.as_str()).collect();
    store_each(&*provider, all.iter().copied()).await?;
    let mut failures = Vec::new();
    for line in table {
        let selector = line.selector()?;
        let found = walk(&*provider, |query| query.selector(selector.clone()).limit(1_000)).await?;
        let expected: BTreeSet<_> = all.iter().copied().filter(|space| selector.matches(space)).collect();
        let is_right = spaces(&found).contains(&line.space.as_str()) == line.matches;
        if !is_right || found.len() != expected.len() || BTreeSet::from_iter(spaces(&found)) != expected {
            failures.push(&line.id);
        }
    }
    assert!(failures.is_empty(), "lines of the table that fail: {failures:?}");
    Ok(())
}

/// Checks that exact and an escaped glob find only the id itself, prefix also the ids that continue it, and under those of them below it.
async fn check_apart(stage: &Stage, all: &[&str]) -> CaseResult {
    let provider = stage.open().await?;
    store_each(&*provider, all.iter().copied()).await?;
    let mut failures = Vec::new();
    for id in all {
        let continued: Vec<_> = all.iter().copied().filter(|other| other.starts_with(id)).collect();
        let is_under = |other: &&str| {
            let rest = &other[id.len()..];
            rest.is_empty() || rest.starts_with(BOUNDARIES) || id.ends_with(BOUNDARIES)
        };
        let under = continued.iter().copied().filter(is_under).collect();
        for (selector, expected) in [
            (SpaceSelector::exact(id)?, vec![*id]),
            (SpaceSelector::glob(glob_escaped(id))?, vec![*id]),
            (SpaceSelector::under(id)?, under),
            (SpaceSelector::prefix(id)?, continued),
        ] {
            let found = walk(&*provider, |query| query.selector(selector.clone()).order(Order::OldestFirst)).await?;
            if spaces(&found) != expected {
                failures.push(format!("{selector} finds {:?} and not {expected:?}", spaces(&found)));
            }
        }
    }
    assert!(failures.is_empty(), "selectors that find something else: {failures:?}");
    Ok(())
}

/// Checks what each selector finds of these spaces, in the order in which they are stored.
async fn check_finds(stage: &Stage, all: &[&str], table: &[(SpaceSelector, &[&str])]) -> CaseResult {
    let provider = stage.open().await?;
    store_each(&*provider, all.iter().copied()).await?;
    for (selector, expected) in table {
        let found =
            walk(&*provider, |query| query.selector(selector.clone()).order(Order::OldestFirst).limit(2)).await?;
        assert_eq!(spaces(&found), *expected, "{selector}");
    }
    Ok(())
}

/// A glob that matches exactly this text.
fn glob_escaped(text: &str) -> String {
    text.chars().map(|char| if "*?[".contains(char) { format!("[{char}]") } else { char.into() }).collect()
}
