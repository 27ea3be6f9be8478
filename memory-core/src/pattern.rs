//! Globs and regular expressions, both on the linear-time engine of the `regex` crate.

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind, Look};

use crate::{Error, Result};

/// Maximum size of a compiled expression, in bytes.
const MAX_COMPILED: usize = 1 << 20;

/// Compiles a user's expression, unanchored.
pub(crate) fn regex(pattern: &str) -> Result<Regex> {
    RegexBuilder::new(pattern).size_limit(MAX_COMPILED).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => too_large(),
        _ => Error::invalid("not a valid regex").with_source(error),
    })
}

/// Compiles a pattern of SQLite's GLOB, anchored at both ends; `None` for a pattern that matches nothing.
///
/// Every literal character is written as an escape, because the two dialects differ in what is special in a class.
pub(crate) fn glob(pattern: &str) -> Result<Option<Regex>> {
    let mut expression = String::from(r"\A(?s:");
    let mut rest = pattern.chars();
    while let Some(char) = rest.next() {
        match char {
            '*' => expression.push_str(".*"),
            '?' => expression.push('.'),
            '[' => match class(&mut rest) {
                Some(class) => expression.push_str(&class),
                None => return Ok(None),
            },
            // Writing to a String can't fail.
            literal => drop(write!(expression, "\\x{{{:x}}}", literal as u32)),
        }
    }
    expression.push_str(r")\z");
    let regex = RegexBuilder::new(&expression).size_limit(MAX_COMPILED).build();
    // The generated expression would tell the caller nothing.
    regex.map(Some).map_err(|_| too_large())
}

/// Returns the literal text that every match starts with, if the expression is anchored at the start; else the empty
/// text.
pub(crate) fn anchored_head(pattern: &str) -> String {
    let Ok(hir) = regex_syntax::parse(pattern) else { return String::new() };
    let parts: &[Hir] = match hir.kind() {
        HirKind::Concat(parts) => parts,
        _ => return String::new(),
    };
    match (parts.first().map(Hir::kind), parts.get(1).map(Hir::kind)) {
        (Some(HirKind::Look(Look::Start)), Some(HirKind::Literal(literal))) => {
            // A literal may end inside a character; only whole characters are returned.
            let valid = match std::str::from_utf8(&literal.0) {
                Ok(_) => literal.0.len(),
                Err(error) => error.valid_up_to(),
            };
            String::from_utf8_lossy(&literal.0[..valid]).into_owned()
        }
        _ => String::new(),
    }
}

/// Parses the class between `[` and its `]`; `None` if it isn't closed.
fn class(rest: &mut std::str::Chars<'_>) -> Option<String> {
    let mut chars = rest.clone();
    let negated = chars.clone().next() == Some('^');
    if negated {
        chars.next();
    }
    let mut ranges: Vec<(char, char)> = Vec::new();
    // The character that may start a range if `-` follows.
    let mut start: Option<char> = None;
    let mut first = true;
    loop {
        let char = chars.next()?;
        match char {
            ']' if first => ranges.push((']', ']')),
            ']' => break,
            '-' if start.is_some() && !matches!(chars.clone().next(), Some(']') | None) => {
                let (low, high) = (start.take()?, chars.next()?);
                ranges.push((low, high));
            }
            literal => {
                ranges.push((literal, literal));
                start = Some(literal);
            }
        }
        first = false;
    }
    *rest = chars;
    let mut class = String::from(if negated { "[^" } else { "[" });
    // An inverted range is empty.
    ranges.retain(|(low, high)| low <= high);
    if ranges.is_empty() {
        return Some(if negated { "(?s:.)".into() } else { "[^\\x{0}-\\x{10FFFF}]".into() });
    }
    for (low, high) in ranges {
        let _ = write!(class, "\\x{{{:x}}}-\\x{{{:x}}}", low as u32, high as u32);
    }
    class.push(']');
    Some(class)
}

fn too_large() -> Error {
    Error::invalid("the pattern is too large once it is written out")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(pattern: &str, text: &str) -> bool {
        glob(pattern).expect("compiles").is_some_and(|regex| regex.is_match(text))
    }

    #[test]
    fn glob_classes_are_those_of_sqlite() {
        for (pattern, text, matches) in [
            ("[]]", "]", true),
            ("[^]]", "]", false),
            ("[a-c]", "b", true),
            ("[c-a]", "b", false),
            ("[^c-a]", "b", true),
            ("[a-]", "-", true),
            ("[-a]", "-", true),
            ("[a-c-e]", "d", false),
            ("[]-a]", "^", false),
            ("[]-a]", "-", true),
            ("[a&&b]", "&", true),
            ("[\\]", "\\", true),
            ("[[]", "[", true),
            ("[!a]", "!", true),
            ("[a", "a", false),
            ("*", "", true),
            ("?", "é", true),
            ("a*c", "a\nc", true),
        ] {
            assert_eq!(globs(pattern, text), matches, "{pattern} on {text}");
        }
    }

    #[test]
    fn what_is_too_large_when_compiled_is_refused() {
        assert!(regex(r"^[a-z]{1,100}$").is_ok());
        assert!(regex(r"\w{200}").is_err());
        assert!(glob(&"?".repeat(1 << 10)).is_ok());
        assert!(glob(&"[^a]".repeat(1 << 8)).is_ok());
        assert!(glob(&"*".repeat(1 << 10)).is_ok());
        assert!(glob(&"a?*".repeat(341)).is_ok());
    }

    #[test]
    fn the_head_of_an_anchored_expression_is_literal() {
        for (pattern, head) in [
            ("^plugin-discord-[0-9]+", "plugin-discord-"),
            (r"^a\.b$", "a.b"),
            ("^a*", ""),
            ("plugin", ""),
            ("^a|^b", ""),
            ("(?i)^a", ""),
            ("(?m)^a-b", ""),
        ] {
            assert_eq!(anchored_head(pattern), head, "{pattern}");
        }
    }
}
