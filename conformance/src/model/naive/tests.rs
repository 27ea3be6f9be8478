//! The model passes the golden tables too.

use super::{merge, space, text, value};
use crate::golden::{SelectorKind, patches, patterns, prefixes};
use crate::model::op::Selector;

#[test]
fn selectors_find_what_the_tables_say() {
    for line in [patterns(), prefixes()].concat() {
        let kind = match line.kind {
            SelectorKind::Under => Selector::Under,
            SelectorKind::Prefix => Selector::Prefix,
            SelectorKind::Glob => Selector::Glob,
            SelectorKind::Regex => Selector::Regex,
        };
        assert_eq!(space::finds(&kind(line.pattern), &line.space), line.matches, "{}", line.id);
    }
}

#[test]
fn patches_merge_as_the_table_says() {
    for line in patches() {
        assert_eq!(merge(value(&line.metadata), value(&line.patch)), value(&line.merged), "{}", line.id);
    }
}

#[test]
fn strings_and_words_come_in_reading_order() {
    let json = r#"{"b":["Red, \"BLUE\"",1.5,{"key":null}],"a":true,"a":"caf\u00e9 cafe\u0301"}"#;
    let strings = text::strings(json);
    assert_eq!(strings, ["Red, \"BLUE\"", "café cafe\u{301}"]);
    assert_eq!(text::words(&strings.join("\n")), ["red", "blue", "café", "cafe\u{301}"]);
    assert_eq!(text::words("日本1テa--"), ["日", "本", "1", "テ", "a"]);
}
