//! Shows the parts of scores as bars.

use maud::{Markup, html};
use memory_core::{Explained, Parts, Term};

use super::text::{counted, number, preview};

/// The width of the longest bar.
const WIDTH: f64 = 200.0;

/// Renders the parts of a hit's score. The longest bar stands for `greatest`, over all hits.
pub(super) fn bars(parts: &Parts, greatest: f64) -> Markup {
    html! {
        table class="parts" {
            caption class="hidden" { "Parts of the score" }
            thead { tr {
                th scope="col" { "Part" }
                th scope="col" class="number" { "Score" }
                th scope="col" { "Share" }
            } }
            tbody {
                @for (name, score) in named(parts) {
                    tr {
                        th scope="row" { (name) }
                        td class="number" { (format!("{score:.4}")) }
                        td { (bar(score, greatest)) }
                    }
                }
            }
        }
    }
}

/// The greatest part by its absolute value, for the longest bar.
pub(super) fn greatest<'p>(all: impl Iterator<Item = &'p Parts>) -> f64 {
    all.flat_map(named).map(|(_, score)| score.abs()).fold(0.0, f64::max)
}

/// Renders the terms of the question that a record holds.
pub(super) fn terms(terms: &[Term]) -> Markup {
    html! {
        @if !terms.is_empty() {
            p { "Terms: "
                @for (place, term) in terms.iter().enumerate() {
                    @if place > 0 { ", " }
                    (preview(&term.term)) " (" (counted(term.count as usize, "time", "times"))
                    ", rarity " (format!("{:.2}", term.idf)) ")"
                }
            }
        }
    }
}

/// Renders the divisors of the parts.
pub(super) fn divisors(explained: &Explained) -> Markup {
    let numbers = [
        ("Terms of a record on average", explained.average_length),
        ("Best words", explained.words),
        ("Best neighbours", explained.neighbours),
        ("Best words with neighbours", explained.together),
        ("Best container", explained.container),
        ("Best sum of the three", explained.total),
        ("Least cosine", explained.least_cosine),
        ("Greatest cosine", explained.greatest_cosine),
        ("Best sum with meaning", explained.together_with_meaning),
    ];
    html! {
        details {
            summary { "By what the parts are divided" }
            dl {
                dt { "Records of the scope" } dd { (number(explained.records)) }
                @for (name, value) in numbers { dt { (name) } dd { (format!("{value:.4}")) } }
            }
        }
    }
}

fn named(parts: &Parts) -> [(&'static str, f64); 6] {
    let Parts { words, neighbours, container, meaning, question, speaker } = *parts;
    [
        ("Words", words),
        ("Neighbours", neighbours),
        ("Container", container),
        ("Meaning", meaning),
        ("Question", question),
        ("Speaker", speaker),
    ]
}

/// Renders a bar; the number beside it has the same value.
fn bar(score: f64, greatest: f64) -> Markup {
    let share = if greatest > 0.0 { (score.abs() / greatest).min(1.0) } else { 0.0 };
    let class = if score < 0.0 { "minus" } else { "plus" };
    html! {
        svg class="bar" width=(WIDTH) height="10" viewBox=(format!("0 0 {WIDTH} 10")) aria-hidden="true" focusable="false" {
            rect class=(class) x="0" y="0" width=(format!("{:.1}", WIDTH * share)) height="10" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_parts() {
        let parts = Parts { words: 0.5, question: -0.25, ..Parts::default() };
        assert_eq!(greatest([Parts::default(), parts].iter()), 0.5);
        let html = bars(&parts, 0.5).into_string();
        assert!(html.contains(r#"<rect class="plus" x="0" y="0" width="200.0""#), "{html}");
        assert!(html.contains(r#"<rect class="minus" x="0" y="0" width="100.0""#), "{html}");
        assert_eq!(html.matches(r#"width="0.0""#).count(), 4, "{html}");
        assert!(!bars(&Parts::default(), 0.0).into_string().contains("NaN"));
    }
}
