//! The frame of the tables that list something.

use maud::{Markup, html};

/// What stands above a column.
#[derive(Debug, Clone, Copy)]
pub(super) enum Head<'h> {
    Text(&'h str),
    /// Above numbers, which stand on the right.
    Number(&'h str),
}

/// A table that is scrolled by itself where it is wider than the page. It is no landmark, since a page may have several.
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
