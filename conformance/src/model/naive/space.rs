//! Which spaces a selector finds (S1 to S5), evaluated character by character.

use regex::Regex;

use crate::model::op::Selector;

/// Whether a selector finds a space.
pub(super) fn finds(selector: &Selector, space: &str) -> bool {
    let is_boundary = |char: Option<char>| matches!(char, Some('-' | '/' | ':'));
    match selector {
        Selector::Exact(id) => space == id,
        Selector::Prefix(prefix) => space.as_bytes().starts_with(prefix.as_bytes()),
        Selector::Under(path) if is_boundary(path.chars().last()) => space.starts_with(path),
        Selector::Under(path) => {
            space == path || space.starts_with(path) && is_boundary(space[path.len()..].chars().next())
        }
        Selector::Glob(pattern) => {
            let (pattern, space): (Vec<_>, Vec<_>) = (pattern.chars().collect(), space.chars().collect());
            glob(&pattern, &space)
        }
        Selector::Regex(pattern) => Regex::new(pattern).expect("a valid expression").is_match(space),
    }
}

/// The space right below a path that holds an id, evaluated character by character (S8).
pub(super) fn right_below(path: &str, id: &str) -> Option<String> {
    let (mut name, mut has_segment) = (path.to_owned(), false);
    for char in id.chars().skip(path.chars().count()) {
        let is_boundary = matches!(char, '-' | '/' | ':');
        if is_boundary && has_segment {
            break;
        }
        has_segment |= !is_boundary;
        name.push(char);
    }
    (name != path).then_some(name)
}

fn glob(pattern: &[char], space: &[char]) -> bool {
    match (pattern, space) {
        ([], _) => space.is_empty(),
        (['*', rest @ ..], _) => (0..=space.len()).any(|skipped| glob(rest, &space[skipped..])),
        (_, []) => false,
        (['?', rest @ ..], [_, space @ ..]) => glob(rest, space),
        (['[', rest @ ..], [char, space @ ..]) => {
            class(rest, *char).is_some_and(|(holds, rest)| holds && glob(rest, space))
        }
        ([wanted, rest @ ..], [char, space @ ..]) => wanted == char && glob(rest, space),
    }
}

/// Whether a class contains a character, and the pattern after the class; `None` if the class is not closed.
fn class(pattern: &[char], char: char) -> Option<(bool, &[char])> {
    let (is_negated, mut rest) = match pattern {
        ['^', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    let (mut holds, mut is_first, mut before) = (false, true, None);
    loop {
        (holds, before, rest) = match (before, rest) {
            (_, []) => return None,
            (_, [']', rest @ ..]) if !is_first => return Some((holds != is_negated, rest)),
            // A `]` that comes first is literal, and starts no range.
            (_, [']', rest @ ..]) => (char == ']', None, rest),
            // The start of the range was compared as a character of its own before, so it counts even if the range is empty.
            (Some(low), ['-', high, rest @ ..]) if *high != ']' => (holds || (low..=*high).contains(&char), None, rest),
            (_, [one, rest @ ..]) => (holds || *one == char, Some(*one), rest),
        };
        is_first = false;
    }
}
