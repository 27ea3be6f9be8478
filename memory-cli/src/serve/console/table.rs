//! The frame of tables.

use maud::{Markup, html};

/// The heading of a column.
#[derive(Debug, Clone, Copy)]
pub(super) enum Head<'h> {
    Text(&'h str),
    /// A heading above right-aligned numbers.
    Number(&'h str),
}

/// Renders a table that scrolls if it is wider than the page. It is not a landmark, since a page may have several.
pub(super) fn table(caption: &str, heads: &[Head<'_>], rows: &Markup) -> Markup {
    html! {
        div class="wide" role="group" aria-label=(caption) tabindex="0" {
            table {
                caption class="hidden" { (caption) }
                thead { tr {
                    @for head in heads {
                        @match head {
                            Head::Text(text) => th scope="col" { (text) },
                            Head::Number(text) => th scope="col" class="number" { (text) },
                        }
                    }
                } }
                tbody { (rows) }
            }
        }
    }
}
