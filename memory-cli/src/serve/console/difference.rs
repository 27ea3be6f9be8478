//! Shows two texts side by side, with their differences marked.

use maud::{Markup, html};

/// The most pairs of lines that are compared, so that a page of versions takes some milliseconds. Of longer texts only the common
/// beginning and end are found.
const MAX_PAIRS: usize = 40_000;

/// A text before and after a change.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) before: Markup,
    pub(super) after: Markup,
}

impl Difference {
    /// Compares two texts line by line.
    pub(super) fn of(before: &str, after: &str) -> Self {
        let (before, after): (Vec<_>, Vec<_>) = (before.split('\n').collect(), after.split('\n').collect());
        let hunks = hunks(&before, &after);
        Self { before: block(hunks.iter().map(Hunk::before)), after: block(hunks.iter().map(Hunk::after)) }
    }
}

/// Lines that both texts have, or lines that differ.
#[derive(Debug, PartialEq, Eq)]
enum Hunk<'t> {
    Same(&'t str),
    Changed { before: Vec<&'t str>, after: Vec<&'t str> },
}

impl Hunk<'_> {
    fn before(&self) -> Markup {
        match self {
            Self::Same(line) => html! { (line) "\n" },
            Self::Changed { before, after } => html! {
                @for (line, other) in opposite(before, after) { del { (marked(line, other)) } "\n" }
            },
        }
    }

    fn after(&self) -> Markup {
        match self {
            Self::Same(line) => html! { (line) "\n" },
            Self::Changed { before, after } => html! {
                @for (line, other) in opposite(after, before) { ins { (marked(line, other)) } "\n" }
            },
        }
    }
}

fn block(lines: impl Iterator<Item = Markup>) -> Markup {
    html! { pre dir="auto" { @for line in lines { (line) } } }
}

/// Pairs each line with its replacement, if the numbers are the same.
fn opposite<'t>(lines: &[&'t str], others: &[&'t str]) -> Vec<(&'t str, Option<&'t str>)> {
    let are_pairs = lines.len() == others.len();
    lines.iter().enumerate().map(|(place, line)| (*line, others.get(place).copied().filter(|_| are_pairs))).collect()
}

/// A line with the parts marked that the other one lacks.
fn marked(line: &str, other: Option<&str>) -> Markup {
    let Some(other) = other else { return html! { (line) } };
    let begin = shared(line.chars(), other.chars());
    let (rest, other) = (&line[begin..], &other[begin..]);
    let end = shared(rest.chars().rev(), other.chars().rev());
    let (changed, rest) = rest.split_at(rest.len() - end);
    html! { (line[..begin]) @if !changed.is_empty() { mark { (changed) } } (rest) }
}

/// The number of bytes in the common beginning.
fn shared(one: impl Iterator<Item = char>, other: impl Iterator<Item = char>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum()
}

fn hunks<'t>(before: &[&'t str], after: &[&'t str]) -> Vec<Hunk<'t>> {
    let begin = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    let (begun, before, after) = (&before[..begin], &before[begin..], &after[begin..]);
    let end = before.iter().rev().zip(after.iter().rev()).take_while(|(one, other)| one == other).count();
    let (before, ended) = before.split_at(before.len() - end);
    let after = &after[..after.len() - end];
    let mut hunks: Vec<_> = begun.iter().copied().map(Hunk::Same).collect();
    if before.len() * after.len() <= MAX_PAIRS {
        between(before, after, &mut hunks);
    } else {
        hunks.push(Hunk::Changed { before: before.to_vec(), after: after.to_vec() });
    }
    hunks.extend(ended.iter().copied().map(Hunk::Same));
    hunks
}

/// Finds the longest common subsequence of lines.
fn between<'t>(before: &[&'t str], after: &[&'t str], hunks: &mut Vec<Hunk<'t>>) {
    let width = after.len() + 1;
    // The length of the longest common subsequence from there on.
    let mut kept = vec![0_u32; (before.len() + 1) * width];
    for one in (0..before.len()).rev() {
        for other in (0..after.len()).rev() {
            kept[one * width + other] = if before[one] == after[other] {
                kept[(one + 1) * width + other + 1] + 1
            } else {
                kept[(one + 1) * width + other].max(kept[one * width + other + 1])
            };
        }
    }
    let (mut one, mut other) = (0, 0);
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    while one < before.len() || other < after.len() {
        if one < before.len() && other < after.len() && before[one] == after[other] {
            flush(&mut removed, &mut added, hunks);
            hunks.push(Hunk::Same(before[one]));
            (one, other) = (one + 1, other + 1);
        } else if other == after.len()
            || one < before.len() && kept[(one + 1) * width + other] >= kept[one * width + other + 1]
        {
            removed.push(before[one]);
            one += 1;
        } else {
            added.push(after[other]);
            other += 1;
        }
    }
    flush(&mut removed, &mut added, hunks);
}

fn flush<'t>(removed: &mut Vec<&'t str>, added: &mut Vec<&'t str>, hunks: &mut Vec<Hunk<'t>>) {
    if !removed.is_empty() || !added.is_empty() {
        hunks.push(Hunk::Changed { before: std::mem::take(removed), after: std::mem::take(added) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_marked_and_nothing_else() {
        let Difference { before, after } =
            Difference::of("{\n  \"a\": 1,\n  \"b\": 2\n}", "{\n  \"a\": 1,\n  \"b\": 23\n}");
        let same = "<pre dir=\"auto\">{\n  &quot;a&quot;: 1,\n";
        assert_eq!(before.into_string(), format!("{same}<del>  &quot;b&quot;: 2</del>\n}}\n</pre>"));
        assert_eq!(after.into_string(), format!("{same}<ins>  &quot;b&quot;: 2<mark>3</mark></ins>\n}}\n</pre>"));
        let Difference { before, after } = Difference::of("a\nb\nc\nd", "a\nx\ny\nc\nd\n<i>");
        assert_eq!(before.into_string(), "<pre dir=\"auto\">a\n<del>b</del>\nc\nd\n</pre>");
        let expected = "<pre dir=\"auto\">a\n<ins>x</ins>\n<ins>y</ins>\nc\nd\n<ins>&lt;i&gt;</ins>\n</pre>";
        assert_eq!(after.into_string(), expected);
    }

    #[test]
    fn each_side_keeps_its_lines() {
        let texts = |length| (0..3_usize.pow(length)).map(move |number| text(number, length));
        let all: Vec<String> = (0..=4).flat_map(texts).collect();
        for (before, after) in all.iter().flat_map(|before| all.iter().map(move |after| (before, after))) {
            let (before, after): (Vec<_>, Vec<_>) = (before.split('\n').collect(), after.split('\n').collect());
            let (mut left, mut right) = (Vec::new(), Vec::new());
            for hunk in hunks(&before, &after) {
                match hunk {
                    Hunk::Same(line) => {
                        left.push(line);
                        right.push(line);
                    }
                    Hunk::Changed { before, after } => {
                        left.extend(before);
                        right.extend(after);
                    }
                }
            }
            assert_eq!((left, right), (before, after));
        }
    }

    /// The text of so many characters that has this number.
    fn text(number: usize, length: u32) -> String {
        (0..length).map(|place| ['a', 'b', '\n'][number / 3_usize.pow(place) % 3]).collect()
    }
}
