//! Texts in forms, which keep their bytes unless somebody changes them.

use maud::{Markup, html};
use memory_core::Metadata;

use crate::serve::console::json;
use crate::serve::console::text::MAX_SHOWN;

/// The text of a form field; `None` if it is too long for a page, and stays unchanged.
#[derive(Debug)]
pub(super) struct Editable(Option<String>);

impl Editable {
    pub(super) fn of(text: &str) -> Self {
        Self((text.len() <= MAX_SHOWN).then(|| text.to_owned()))
    }

    /// Formats metadata with one line per value, if that keeps their meaning.
    pub(super) fn of_metadata(metadata: &Metadata) -> Self {
        let lines = json::indented(metadata.as_str()).text;
        let is_same = Metadata::parse(&lines).is_ok_and(|same| same == *metadata);
        if is_same { Self(Some(lines)) } else { Self::of(metadata.as_str()) }
    }

    /// The initial text of the field, if there is one.
    pub(super) fn shown(&self) -> Option<String> {
        self.0.clone()
    }

    /// Returns the sent text, if somebody has changed it. Browsers send every line break as CR LF.
    pub(super) fn changed(&self, sent: Option<&str>) -> Option<String> {
        // The page has no field for a text that is too long. If one is sent anyway, it belongs to another revision, and the change
        // is refused.
        let before = self.0.as_deref().unwrap_or_default();
        let sent = plain(sent?);
        if sent == plain(before) {
            return None;
        }
        let is_crlf = before.contains("\r\n") && !before.replace("\r\n", "").contains(['\r', '\n']);
        Some(if is_crlf { sent.replace('\n', "\r\n") } else { sent })
    }

    /// Renders the field with `text`, the stored or the sent one; nothing if there is none.
    pub(super) fn field(name: &str, label: &str, text: Option<&str>) -> Markup {
        html! {
            @if let Some(text) = text {
                p class="lines" {
                    label for=(name) { (label) }
                    // Browsers ignore a line break at the beginning.
                    textarea id=(name) name=(name) rows="10" dir="auto" autocomplete="off" spellcheck="false" { "\n" (text) }
                }
            } @else {
                p class="note lines" { (label) ": too long for a form. It stays as it is; the API changes it." }
            }
        }
    }
}

fn plain(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_nobody_changes_keep_their_line_breaks() {
        for text in ["", "a", "\na\n", "a\r\nb\r\n", "a\rb\r\nc\nd", "\u{1b}\u{7f}"] {
            let editable = Editable::of(text);
            let sent = plain(text).replace('\n', "\r\n");
            assert_eq!(editable.changed(Some(&sent)), None, "{text:?}");
            assert_eq!(editable.changed(Some(&plain(text))), None, "{text:?}");
        }
        let changed = |before: &str, sent: &str| Editable::of(before).changed(Some(sent));
        assert_eq!(changed("a\nb", "a\r\nc").as_deref(), Some("a\nc"));
        assert_eq!(changed("a\r\nb", "a\r\nc").as_deref(), Some("a\r\nc"));
        assert_eq!(changed("a\rb\r\nc", "a\r\nb\r\nd").as_deref(), Some("a\nb\nd"));
        assert_eq!(changed("a", "").as_deref(), Some(""));
        let long = "a".repeat(MAX_SHOWN + 1);
        assert_eq!((changed(&long, ""), changed(&long, "b").as_deref()), (None, Some("b")));
        assert_eq!(Editable::of("a").changed(None), None, "what is not sent stays");
    }

    #[test]
    fn metadata_stand_on_lines_where_they_stay_the_same() {
        let metadata = |text: &str| Metadata::parse(text).expect("valid");
        assert_eq!(
            Editable::of_metadata(&metadata(r#"{"a":[1]}"#)).shown().as_deref(),
            Some("{\n  \"a\": [\n    1\n  ]\n}")
        );
        // A character that is none on a page.
        let raw = metadata("{\"a\":\"\u{7f}\"}");
        assert_eq!(Editable::of_metadata(&raw).shown().as_deref(), Some(raw.as_str()));
        let long = metadata(&format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_SHOWN)));
        assert_eq!(Editable::of_metadata(&long).changed(Some("")), None);
    }
}
