//! S1 to S7: what selectors find.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::{BOUNDARIES, MemoryId, MemoryPatch, MemoryProvider, Order, Result, SpaceId, SpaceSelector};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{ids, metadata, new_memory, query, spaces, walk};
use crate::golden::{self, SelectorLine};

chapter!("spaces":
    patterns_follow_the_table ["S4", "S5"],
    prefixes_and_paths_follow_the_table ["S2", "S3"],
    under_never_leaks_a_sibling ["S3"],
    under_knows_three_boundaries ["S3"],
    a_prefix_finds_bytes_and_no_wildcards ["S2"],
    a_prefix_may_be_a_whole_id ["S2"],
    a_prefix_ends_before_its_neighbors ["S2"],
    a_prefix_over_many_siblings_finds_all ["S2"],
    a_prefix_over_many_leaves_finds_all ["S2"],
    a_prefix_over_many_siblings_keeps_the_order ["S2", "Q4", "Q6"],
    a_short_prefix_over_deep_spaces_finds_all ["S2"],
    a_parent_with_few_rows_above_many_is_found ["S1", "S3"],
    case_matters_everywhere ["S1", "S2", "S3", "S4", "S5"],
    nothing_is_normalized ["S1", "S2", "S3"],
    every_printable_ascii_character_is_itself ["S1", "S2", "S3", "S4"],
    characters_of_all_planes_are_themselves ["S1", "S2", "S3", "S4"],
    different_ids_never_share_a_key ["S6"],
    an_update_hits_the_id_and_not_its_double ["S6"],
    the_deepest_and_longest_ids_work ["S1", "S3"],
    a_glob_may_start_with_a_literal_or_not ["S4"],
    a_regex_may_be_anchored_or_not ["S5"],
    hostile_patterns_come_to_an_end ["S4", "S5"],
    patterns_of_one_kib_work ["S7"],
    injections_are_data ["S1", "S2", "S3", "S4"],
);

/// S4, S5: globs and regular expressions are what `golden/patterns.json` says (one pattern, two dialects).
async fn patterns_follow_the_table(stage: Stage) -> CaseResult {
    check_table(&stage, &golden::patterns()).await
}

/// S2, S3: prefixes and paths are what `golden/prefixes.json` says.
async fn prefixes_and_paths_follow_the_table(stage: Stage) -> CaseResult {
    check_table(&stage, &golden::prefixes()).await
}

/// S3: a path finds itself and what is below it, and never a sibling that starts with the same bytes (a tenant that read
/// another's memories, CVE-2026-71433).
async fn under_never_leaks_a_sibling(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let inside =
        ["guild-1", "guild-1-", "guild-1-general", "guild-1-general-7", "guild-1/x", "guild-1:x", "guild-1--x"];
    let outside =
        ["guild", "guild-", "guild-12", "guild-12-general", "guild-1a", "guild-10-1", "guild-1_x", "guild-1.x"];
    let more = ["guild-1 x", "guild-1é", "guild-2", "Guild-1-x", "xguild-1", "x-guild-1-x", "guild-1\u{2010}x"];
    store_each(&*provider, inside.into_iter().chain(outside).chain(more)).await?;
    let found = walk(&*provider, |query| query.under("guild-1").limit(2)).await?;
    assert_eq!(BTreeSet::from_iter(spaces(&found)), BTreeSet::from(inside));
    assert_eq!(found.len(), inside.len());
    Ok(())
}

/// S3: `-`, `/` and `:` end a path; a path that ends with one of them means just that one.
async fn under_knows_three_boundaries(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let ends = BOUNDARIES.map(|boundary| format!("a{boundary}"));
    let below = BOUNDARIES.map(|boundary| format!("a{boundary}b"));
    store_each(&*provider, ends.iter().chain(&below).map(String::as_str).chain(["a", "ab"])).await?;
    assert_eq!(walk(&*provider, |query| query.under("a")).await?.len(), 7);
    for (end, below) in ends.iter().zip(&below) {
        let found = walk(&*provider, |query| query.under(end)).await?;
        assert_eq!(BTreeSet::from_iter(spaces(&found)), BTreeSet::from([end.as_str(), below]), "under {end}");
    }
    Ok(())
}

/// S2: the special characters of LIKE, GLOB, regular expressions and Redis patterns mean themselves in a prefix.
async fn a_prefix_finds_bytes_and_no_wildcards(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let special =
        ["%", "_", "\\", "*", "?", "[", "]", "[a]", "^", "$", ".", "+", "|", "(", "{", "'", "\"", "\\%", "%%"];
    let ids: Vec<_> = special.iter().map(|special| format!("a{special}b")).collect();
    store_each(&*provider, ids.iter().map(String::as_str).chain(["ab", "axb", "axxb", "abb"])).await?;
    for (special, id) in special.iter().zip(&ids) {
        let prefix = format!("a{special}");
        let found = walk(&*provider, |query| query.prefix(&prefix)).await?;
        let mut found = spaces(&found);
        found.sort_unstable();
        let mut expected: Vec<_> = ids.iter().map(String::as_str).filter(|id| id.starts_with(&prefix)).collect();
        expected.sort_unstable();
        assert!(expected.contains(&id.as_str()));
        assert_eq!(found, expected, "prefix {prefix:?}");
    }
    Ok(())
}

/// S2: a prefix that equals an id finds it, everything below it, and siblings whose ids continue.
async fn a_prefix_may_be_a_whole_id(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    store_each(&*provider, ["a-b", "a-b-c", "a-bc", "a-b-c-d", "a", "a-", "a-a", "a-c"]).await?;
    let found = walk(&*provider, |query| query.prefix("a-b").order(Order::OldestFirst)).await?;
    assert_eq!(spaces(&found), ["a-b", "a-b-c", "a-bc", "a-b-c-d"]);
    let found = walk(&*provider, |query| query.prefix("a-").order(Order::OldestFirst)).await?;
    assert_eq!(spaces(&found), ["a-b", "a-b-c", "a-bc", "a-b-c-d", "a-", "a-a", "a-c"]);
    Ok(())
}

/// S2: the ends of a range of keys are drawn at the right byte, also at the ends of the encoding.
async fn a_prefix_ends_before_its_neighbors(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let letters = [
        '~',
        '\u{a0}',
        'é',
        'ê',
        '\u{bf}',
        '\u{c0}',
        '\u{7ff}',
        '\u{800}',
        '\u{fff}',
        '\u{1000}',
        '\u{d7ff}',
        '\u{e000}',
        '\u{ffff}',
        '\u{10000}',
        '\u{fffff}',
        '\u{100000}',
        '\u{10ffff}',
        '!',
        'z',
        '{',
    ];
    let ids = letters.map(|letter| [format!("caf{letter}"), format!("caf{letter}-x"), format!("caf{letter}x-y")]);
    store_each(&*provider, ids.as_flattened().iter().map(String::as_str)).await?;
    for (letter, expected) in letters.iter().zip(&ids) {
        let found = walk(&*provider, |query| query.prefix(format!("caf{letter}")).order(Order::OldestFirst)).await?;
        assert_eq!(spaces(&found), *expected, "prefix caf{}", letter.escape_unicode());
    }
    Ok(())
}

/// S2: more than 100 siblings with spaces below them share a prefix.
async fn a_prefix_over_many_siblings_finds_all(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let ids: Vec<_> = (0..150).map(|number| format!("plugin-guild{number:03}-general")).collect();
    store_each(&*provider, ids.iter().map(String::as_str)).await?;
    store_each(&*provider, ["plugin-guest-x", "plugin", "plugin-gulf", "plugins-guild1-x"]).await?;
    for (prefix, expected) in
        [("plugin-guild", 150), ("plugin-guild0", 100), ("plugin-guild14", 10), ("plugin-gu", 152)]
    {
        let found = walk(&*provider, |query| query.prefix(prefix).limit(40)).await?;
        assert!(found.iter().all(|memory| memory.space_id.as_str().starts_with(prefix)), "{prefix}");
        assert_eq!(BTreeSet::from_iter(spaces(&found)).len(), expected, "{prefix}");
        assert_eq!(found.len(), expected, "{prefix}: a row came twice");
    }
    Ok(())
}

/// S2: more than 100 siblings without spaces below them share a prefix.
async fn a_prefix_over_many_leaves_finds_all(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let ids: Vec<_> = (0..150).map(|number| format!("room-message{number:03}")).collect();
    store_each(&*provider, ids.iter().map(String::as_str)).await?;
    store_each(&*provider, ["room", "room-", "room-messag", "rooms"]).await?;
    for (prefix, expected) in
        [("room-message", 150), ("room-message1", 50), ("room-message149", 1), ("room-message150", 0)]
    {
        assert_eq!(walk(&*provider, |query| query.prefix(prefix).limit(40)).await?.len(), expected, "{prefix}");
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

/// S2: a prefix that ends inside of the first segment finds rows of every depth.
async fn a_short_prefix_over_deep_spaces_finds_all(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let deep = ["plugin", "plugin-a", "plugin-a-b-c-d-e", "plumber-x", "plugin/a:b", "pl", "p-x", "pm", "-pl", "PL"];
    store_each(&*provider, deep).await?;
    let found = walk(&*provider, |query| query.prefix("pl").order(Order::OldestFirst)).await?;
    assert_eq!(spaces(&found), ["plugin", "plugin-a", "plugin-a-b-c-d-e", "plumber-x", "plugin/a:b", "pl"]);
    Ok(())
}

/// S1, S3: the few rows of a parent are found although there are thousands below it, and those below without it.
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
    let provider = stage.open().await?;
    store_each(&*provider, ["user/1", "User/1", "USER/1", "äser/1", "Äser/1"]).await?;
    for (selector, expected) in [
        (SpaceSelector::exact("User/1")?, "User/1"),
        (SpaceSelector::under("User")?, "User/1"),
        (SpaceSelector::prefix("Us")?, "User/1"),
        (SpaceSelector::glob("Us*")?, "User/1"),
        (SpaceSelector::glob("*[U]se*")?, "User/1"),
        (SpaceSelector::regex("^Us")?, "User/1"),
        (SpaceSelector::prefix("Ä")?, "Äser/1"),
        (SpaceSelector::glob("ä*")?, "äser/1"),
    ] {
        let found = walk(&*provider, |query| query.selector(selector.clone())).await?;
        assert_eq!(spaces(&found), [expected], "{selector}");
    }
    Ok(())
}

/// S1 to S3: composed and decomposed letters, full-width forms, ligatures and ignorable characters are all different
/// (folding that turned a full-width percent sign into a wildcard).
async fn nothing_is_normalized(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    #[rustfmt::skip]
    let ids = [
        "caf\u{e9}", "cafe\u{301}", "cafe", "\u{fb01}n", "fin", "a\u{ff05}", "a%", "\u{212b}", "\u{c5}", "A\u{30a}",
        "stra\u{df}e", "strasse", "I", "\u{130}", "\u{131}", "i", "\u{ad}i", "i\u{200b}", " i", "i ", "i\u{a0}",
    ];
    let stored = store_each(&*provider, ids).await?;
    for (id, stored) in ids.iter().zip(&stored) {
        let exact = walk(&*provider, |query| query.exact(id)).await?;
        assert_eq!(crate::fixture::ids(&exact), [*stored], "exact {}", id.escape_unicode());
        let under = walk(&*provider, |query| query.under(id)).await?;
        assert_eq!(crate::fixture::ids(&under), [*stored], "under {}", id.escape_unicode());
        let prefix = walk(&*provider, |query| query.prefix(id)).await?;
        let expected: BTreeSet<_> = ids.iter().copied().filter(|other| other.starts_with(id)).collect();
        assert_eq!(BTreeSet::from_iter(spaces(&prefix)), expected, "prefix {}", id.escape_unicode());
    }
    Ok(())
}

/// S1 to S4: each printable ASCII character goes through every selector as itself.
async fn every_printable_ascii_character_is_itself(stage: Stage) -> CaseResult {
    check_characters(&stage, (' '..='~').collect()).await
}

/// S1 to S4: 200 characters from all over Unicode go through every selector as themselves.
async fn characters_of_all_planes_are_themselves(stage: Stage) -> CaseResult {
    let all = (0x80_u32..=0x10_FFFF).step_by(5_557).chain([0xA0, 0xAD, 0x300, 0x200B, 0x202E, 0xFEFF, 0xFFFD, 0x1F600]);
    let letters: BTreeSet<_> = all.filter_map(char::from_u32).filter(|letter| !letter.is_control()).collect();
    assert!(letters.len() >= 195, "{} characters", letters.len());
    check_characters(&stage, letters.into_iter().collect()).await
}

/// S6: ids that are made of separators, escapes and look-alikes stay apart on every read path (two paths, one key).
async fn different_ids_never_share_a_key(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = BTreeMap::from_iter(DOUBLES.into_iter().zip(store_each(&*provider, DOUBLES).await?));
    for id in DOUBLES {
        let found = walk(&*provider, |query| query.exact(id)).await?;
        assert_eq!(ids(&found), [stored[id]], "exact {id:?}");
        for selector in [SpaceSelector::under(id)?, SpaceSelector::prefix(id)?] {
            let found = walk(&*provider, |query| query.selector(selector.clone()).limit(7)).await?;
            let expected: BTreeSet<_> = DOUBLES.into_iter().filter(|id| selector.matches(id)).collect();
            assert_eq!(found.len(), expected.len(), "{selector}: a row came twice, or is missing");
            assert_eq!(BTreeSet::from_iter(spaces(&found)), expected, "{selector}");
        }
    }
    Ok(())
}

/// S6: rows of one of these ids are kept apart from those of the others.
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

/// S1, S3: an id of 33 levels is found under each of its ancestors, and one of 512 bytes in every way.
async fn the_deepest_and_longest_ids_work(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let deepest = (0..33).map(|level| format!("l{level}")).collect::<Vec<_>>().join("-");
    let separators = "-/:".repeat(11)[..32].to_owned();
    let longest = format!("{}-{}", "é".repeat(200), "z".repeat(111));
    assert_eq!(longest.len(), 512);
    let widest = format!("{}{}", "-a".repeat(32), "b".repeat(448));
    for id in [&deepest, &separators, &longest, &widest] {
        let stored = provider.store(new_memory(id, 1)).await?;
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
    let provider = stage.open().await?;
    let all = ["plugin-1-a", "plugin-1-b", "plugin-2-a", "plugin", "plug-1-a", "plugin*", "x"];
    store_each(&*provider, all).await?;
    for (pattern, expected) in [
        ("plugin-1-a", vec!["plugin-1-a"]),
        ("plugin-1-*", vec!["plugin-1-a", "plugin-1-b"]),
        ("plugin-?-a", vec!["plugin-1-a", "plugin-2-a"]),
        ("plug*-a", vec!["plugin-1-a", "plugin-2-a", "plug-1-a"]),
        ("*-a", vec!["plugin-1-a", "plugin-2-a", "plug-1-a"]),
        ("?lugin-[12]-[!b-z]", vec!["plugin-1-b"]),
        ("[p]lugin*", vec!["plugin-1-a", "plugin-1-b", "plugin-2-a", "plugin", "plugin*"]),
        ("plugin[*]", vec!["plugin*"]),
        ("*", all.to_vec()),
        ("plugin-[", vec![]),
    ] {
        let found = walk(&*provider, |query| query.glob(pattern).order(Order::OldestFirst).limit(2)).await?;
        assert_eq!(spaces(&found), expected, "glob {pattern}");
    }
    Ok(())
}

/// S5: a regular expression finds the same whether an engine can start from a literal head or not.
async fn a_regex_may_be_anchored_or_not(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let all = ["plugin-1-a", "plugin-12-a", "plugin", "my-plugin-1", "PLUGIN-1", "pluginé"];
    store_each(&*provider, all).await?;
    for (pattern, expected) in [
        ("^plugin-1", vec!["plugin-1-a", "plugin-12-a"]),
        ("plugin-1", vec!["plugin-1-a", "plugin-12-a", "my-plugin-1"]),
        ("^plugin-1-", vec!["plugin-1-a"]),
        ("^plugin$", vec!["plugin"]),
        ("^plugin-1?", vec!["plugin-1-a", "plugin-12-a"]),
        ("^plugin|^my", vec!["plugin-1-a", "plugin-12-a", "plugin", "my-plugin-1", "pluginé"]),
        ("(?i)^plugin-1$", vec!["PLUGIN-1"]),
        ("^pluginé", vec!["pluginé"]),
        ("^plugin[é-]", vec!["plugin-1-a", "plugin-12-a", "pluginé"]),
        (".", all.to_vec()),
    ] {
        let found = walk(&*provider, |query| query.regex(pattern).order(Order::OldestFirst).limit(2)).await?;
        assert_eq!(spaces(&found), expected, "regex {pattern}");
    }
    Ok(())
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

/// S7: a pattern of 1 KiB is one.
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

/// S1 to S4: what looks like SQL, a Redis command or an operator of a document database is the id of a space.
async fn injections_are_data(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    #[rustfmt::skip]
    let hostile = [
        "' OR '1'='1", "'; DROP TABLE memories; --", "\" OR \"\"=\"", "$where", "{\"$gt\":\"\"}",
        "a') UNION SELECT 1 --", "%' ESCAPE '\\", "*2 FLUSHALL", "{tag}x", "}{", "${jndi}", "@space:{a|b}", "(a|b)",
        "a\\'b", "`id`", "x'00'", "?", "$1",
    ];
    let innocent = store_each(&*provider, ["innocent"]).await?;
    let stored = store_each(&*provider, hostile).await?;
    for (id, stored) in hostile.iter().zip(&stored) {
        let glob = glob_escaped(id);
        for selector in [
            SpaceSelector::exact(id)?,
            SpaceSelector::under(id)?,
            SpaceSelector::prefix(id)?,
            SpaceSelector::glob(&glob)?,
        ] {
            let found = walk(&*provider, |query| query.selector(selector.clone())).await?;
            assert_eq!(ids(&found), [*stored], "{selector}");
        }
    }
    assert_eq!(walk(&*provider, |query| query.all()).await?.len(), hostile.len() + 1);
    assert_eq!(ids(&walk(&*provider, |query| query.exact("innocent")).await?), innocent);
    Ok(())
}

/// Ids that become equal if separators are joined, escaped, cut off or folded.
const DOUBLES: [&str; 38] = [
    "a", "a-", "a--", "-", "--", "---", "-a", "a-b", "a--b", "a/b", "a:b", "A", "A-b", "a-B", "a/", "a:", "/", ":",
    "-/:", "a/b:c", "a:b/c", "a-b-c", "a--b-c", "a-b--c", "ab", "ab-c", "\u{e9}", "e\u{301}", "~41", "~2D", "a~2Db",
    "%61", "a%2Db", "\\u0061", "a b", "a ", " a", "a.b",
];

/// Stores a row in each space, the first with the createdAt 1.
async fn store_each<'a>(
    provider: &dyn MemoryProvider,
    ids: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<MemoryId>> {
    provider.store_many((1..).zip(ids).map(|(time, id)| new_memory(id, time)).collect()).await
}

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

/// Checks for each character that it finds the id that holds it and no other: within an id, at its end, and as a pattern.
async fn check_characters(stage: &Stage, letters: Vec<char>) -> CaseResult {
    let provider = stage.open().await?;
    let all: Vec<_> = letters.iter().map(|letter| format!("sweep.{letter}.end")).collect();
    let stored = store_each(&*provider, all.iter().map(String::as_str)).await?;
    let mut failures = Vec::new();
    for ((letter, id), stored) in letters.iter().zip(&all).zip(stored) {
        for selector in [
            SpaceSelector::exact(id)?,
            SpaceSelector::under(id)?,
            SpaceSelector::prefix(format!("sweep.{letter}"))?,
            SpaceSelector::glob(format!("*.{}.end", glob_escaped(&letter.to_string())))?,
        ] {
            let found = walk(&*provider, |query| query.selector(selector.clone())).await?;
            if spaces(&found) != [id] || ids(&found) != [stored] {
                failures.push(selector.to_string());
            }
        }
    }
    assert!(failures.is_empty(), "selectors that find something else: {failures:?}");
    Ok(())
}

/// A glob that matches exactly this text.
fn glob_escaped(text: &str) -> String {
    text.chars().map(|char| if "*?[".contains(char) { format!("[{char}]") } else { char.into() }).collect()
}
