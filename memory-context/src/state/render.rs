//! Renders the text of a state: its sections in order, cut to a budget.

use std::ops::Range;

use super::budget::Budget;
use super::composed::Cut;
use super::options::Order;
use super::provider::{Keep, ProviderInfo};

/// The separator between two sections.
const SEPARATOR: &str = "\n\n";
/// The mark where lines were cut.
const MARK: &str = "[...truncated]";

/// A section: the text of one provider.
#[derive(Debug)]
pub(super) struct Section<'a> {
    pub(super) info: &'a ProviderInfo,
    pub(super) text: &'a str,
}

/// A section after the cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) cut: Option<Cut>,
    /// The byte range in the whole text; empty if the section is not shown.
    pub(super) place: Range<usize>,
}

/// Returns the cut sections, in the order in which they were given, and the whole text. Empty sections are left out of the text.
pub(super) fn render(sections: &[Section<'_>], order: Order, budget: Option<&Budget>) -> (Vec<Shown>, String) {
    let whole = |section: &Section<'_>| Shown { text: section.text.to_owned(), ..Shown::default() };
    let mut shown = match budget {
        Some(budget) => fit(sections, budget),
        None => sections.iter().map(whole).collect(),
    };
    let mut places: Vec<_> = (0..sections.len()).collect();
    if order == Order::StableFirst {
        places.sort_by_key(|place| sections[*place].info.stability);
    }
    let mut text = String::new();
    for place in places {
        let section = &mut shown[place];
        if section.text.trim().is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push_str(SEPARATOR);
        }
        section.place = text.len()..text.len() + section.text.len();
        text.push_str(&section.text);
    }
    (shown, text)
}

/// Cuts sections to the budget. A section gets the room that sections of higher priority leave; of equal priorities the earlier section is
/// served first.
fn fit(sections: &[Section<'_>], budget: &Budget) -> Vec<Shown> {
    let mut places: Vec<_> = (0..sections.len()).collect();
    places.sort_by_key(|place| std::cmp::Reverse(sections[*place].info.priority));
    let mut shown = vec![Shown::default(); sections.len()];
    let mut room = budget.limit;
    let mut separator = 0;
    for place in places {
        let Section { info, text } = &sections[place];
        if text.trim().is_empty() {
            continue;
        }
        shown[place] = cut(text, info.keep, |text| (budget.count)(text) <= room.saturating_sub(separator));
        if !shown[place].text.is_empty() {
            room = room.saturating_sub(separator + (budget.count)(&shown[place].text));
            separator = (budget.count)(SEPARATOR);
        }
    }
    shown
}

/// Keeps as many whole lines as fit, with a mark in place of the others; nothing if not even one line fits.
fn cut(text: &str, keep: Keep, fits: impl Fn(&str) -> bool) -> Shown {
    if fits(text) {
        return Shown { text: text.to_owned(), ..Shown::default() };
    }
    let lines: Vec<_> = text.split('\n').collect();
    let with = |kept: usize| match keep {
        Keep::First => [&lines[..kept], &[MARK]].concat().join("\n"),
        Keep::Last => [&lines[..1], &[MARK], &lines[lines.len() - (kept - 1)..]].concat().join("\n"),
    };
    // More lines never take less room, so a binary search finds the number that fits.
    let (mut fit, mut too_many) = (0, lines.len());
    while too_many - fit > 1 {
        let middle = fit + (too_many - fit) / 2;
        if fits(&with(middle)) { fit = middle } else { too_many = middle }
    }
    let kept = if fit == 0 { String::new() } else { with(fit) };
    let bytes = if fit == 0 { text.len() } else { text.len() - (kept.len() - MARK.len() - 1) };
    Shown { text: kept, cut: Some(Cut { lines: lines.len() - fit, bytes }), ..Shown::default() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Stability;
    use super::*;

    static A: ProviderInfo = ProviderInfo::new("A", "").priority(90).stability(Stability::Turn);
    static B: ProviderInfo = ProviderInfo::new("B", "").priority(10).stability(Stability::Stable);
    static C: ProviderInfo = ProviderInfo::new("C", "").keep(Keep::Last).stability(Stability::Conversation);

    fn sections<'a>(a: &'a str, b: &'a str, c: &'a str) -> [Section<'a>; 3] {
        [(&A, a), (&B, b), (&C, c)].map(|(info, text)| Section { info, text })
    }

    fn text(sections: &[Section<'_>], budget: usize) -> String {
        render(sections, Order::Position, Some(&Budget::bytes(budget))).1
    }

    #[test]
    fn empty_sections_take_no_place() {
        let (shown, text) = render(&sections("a", " \n", "c"), Order::Position, None);
        assert_eq!(text, "a\n\nc");
        assert_eq!(shown.len(), 3);
        assert_eq!(render(&[], Order::Position, Some(&Budget::bytes(0))).1, "");
    }

    #[test]
    fn what_seldom_changes_comes_first_where_that_is_asked_for() {
        let (shown, text) = render(&sections("a", "b", "c"), Order::StableFirst, None);
        assert_eq!(text, "b\n\nc\n\na");
        let places: Vec<_> = shown.iter().map(|section| &text[section.place.clone()]).collect();
        assert_eq!(places, ["a", "b", "c"]);
    }

    #[test]
    fn the_least_important_section_is_cut_first_and_each_at_a_line() {
        let sections = sections("a1\na2", "b1\nb2", "c1\nc2\nc3\nc4\nc5\nc6\nc7\nc8");
        let whole = render(&sections, Order::Position, None).1;
        assert_eq!(text(&sections, whole.len()), whole);
        assert_eq!(text(&sections, whole.len() - 1), "a1\na2\n\nc1\nc2\nc3\nc4\nc5\nc6\nc7\nc8", "no line of B fits");
        assert_eq!(text(&sections, 29), "a1\na2\n\nc1\n[...truncated]\nc8");
        let (shown, _) = render(&sections, Order::Position, Some(&Budget::bytes(29)));
        assert_eq!(shown[2].cut, Some(Cut { lines: 6, bytes: "c2\nc3\nc4\nc5\nc6\nc7\n".len() }));
        assert_eq!(shown[1].cut, Some(Cut { lines: 2, bytes: 5 }));
        assert_eq!(text(&sections, 0), "");
    }

    #[test]
    fn a_budget_counts_what_its_function_counts() {
        let words = Budget::counted(3, |text| text.split_whitespace().count());
        let (shown, text) = render(&sections("one two", "three", "four five"), Order::Position, Some(&words));
        assert_eq!(text, "one two\n\nthree");
        assert!(shown[2].cut.is_some() && shown[0].cut.is_none());
    }

    proptest! {
        #[test]
        fn the_text_fits_and_holds_only_whole_lines(
            a in "[a-cé\n]{0,60}", b in "[a-cé\n]{0,60}", c in "[a-cé\n]{0,60}", budget in 0_usize..160
        ) {
            let sections = sections(&a, &b, &c);
            let text = text(&sections, budget);
            prop_assert!(text.len() <= budget, "{} > {budget}", text.len());
            for line in text.split('\n') {
                let is_given = sections.iter().any(|section| section.text.split('\n').any(|given| given == line));
                prop_assert!(line.is_empty() || line == MARK || is_given, "{line:?}");
            }
        }
    }
}
