//! Renders stored texts for a prompt.

/// The mark where lines were cut.
const MARK: &str = "[...truncated]\n\n";

/// Characters that some readers take for a line break.
pub(crate) const LINE_BREAKS: [char; 7] = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];

/// A text as a prompt shows it, cut to its budget.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rendered {
    pub(super) content: String,
    /// How many bytes of the texts were cut.
    pub(super) dropped_bytes: usize,
}

/// Renders a section for each text that is not empty, the profile first, in at most `budget` bytes; `None` if there is nothing to show.
///
/// If they don't fit, the oldest lines of the memory are cut first, and lines of the profile only after the whole memory.
pub(super) fn render(profile: &str, memory: &str, warning: Option<&str>, budget: usize) -> Option<Rendered> {
    let mut content = warning.map(|warning| format!("[{warning}]")).unwrap_or_default();
    let mut dropped_bytes = 0;
    for (heading, text) in [("## About You\n\n", profile), ("## Memory\n\n", memory)] {
        if text.is_empty() {
            continue;
        }
        let separator = if content.is_empty() { "" } else { "\n\n" };
        let room = budget.saturating_sub(content.len() + separator.len() + heading.len());
        let text = neutralised(text);
        let (mark, kept) = newest_lines(&text, room);
        dropped_bytes += text.len() - kept.len();
        if kept.len() + mark.len() <= room {
            content.extend([separator, heading, mark, kept]);
        }
    }
    let content = content.trim_end().to_owned();
    (!content.is_empty()).then_some(Rendered { content, dropped_bytes })
}

/// Returns the mark, if lines were cut, and the last whole lines that fit.
fn newest_lines(text: &str, room: usize) -> (&'static str, &str) {
    if text.len() <= room {
        return ("", text);
    }
    let first = text.len().saturating_sub(room.saturating_sub(MARK.len()));
    // A line begins after a break. The break itself may be the byte before the first byte that fits.
    let bytes = text.as_bytes();
    let start = (first.max(1)..text.len()).find(|at| bytes[at - 1] == b'\n').unwrap_or(text.len());
    (MARK, text[start..].trim_start_matches('\n'))
}

/// Escapes a text so that it can't open a section: puts a backslash before everything that would be a heading, its underline, or a code
/// fence.
pub(crate) fn neutralised(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for line in text.split_inclusive(LINE_BREAKS) {
        let body = line.trim_start_matches(is_blank);
        let rule = body.trim_end_matches(is_blank);
        let is_underline = |mark: char| !rule.is_empty() && rule.trim_end_matches(mark).is_empty();
        let opens = body.starts_with(['#', '\u{ff03}', '\u{fe5f}'])
            || body.starts_with("```")
            || body.starts_with("~~~")
            || is_underline('=')
            || is_underline('-');
        safe.push_str(&line[..line.len() - body.len()]);
        if opens {
            safe.push('\\');
        }
        safe.push_str(body);
    }
    safe
}

/// Whether a reader sees the character as blank.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || !super::Flags::of(character.encode_utf8(&mut [0; 4])).is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content(profile: &str, memory: &str, budget: usize) -> String {
        render(profile, memory, None, budget).expect("there is something").content
    }

    #[test]
    fn sections_come_in_order_and_empty_ones_not_at_all() {
        assert_eq!(render("", "", None, 1_000), None);
        assert_eq!(content("p", "", 1_000), "## About You\n\np");
        assert_eq!(content("", "m", 1_000), "## Memory\n\nm");
        assert_eq!(content("p\nq", "m", 1_000), "## About You\n\np\nq\n\n## Memory\n\nm");
    }

    #[test]
    fn the_oldest_lines_of_the_memory_go_first() {
        let memory = "first line\n\nsecond line\n\nthird line";
        let whole = content("profile", memory, 1_000);
        assert_eq!(content("profile", memory, whole.len()), whole);
        let cut = render("profile", memory, None, whole.len() - 1).expect("something");
        assert_eq!(cut.content, "## About You\n\nprofile\n\n## Memory\n\n[...truncated]\n\nthird line");
        assert_eq!(cut.dropped_bytes, "first line\n\nsecond line\n\n".len());
        let cut = render("profile", memory, None, 30).expect("something");
        assert_eq!((cut.content.as_str(), cut.dropped_bytes), ("## About You\n\nprofile", memory.len()));
    }

    #[test]
    fn a_profile_beyond_the_budget_is_cut_too() {
        let profile = format!("{}\nlikes tea", "x".repeat(300));
        let cut = render(&profile, "m", None, 256).expect("something");
        assert_eq!(cut.content, "## About You\n\n[...truncated]\n\nlikes tea\n\n## Memory\n\nm");
        assert_eq!(cut.dropped_bytes, 301);
        let cut = render(&"x".repeat(300), "", None, 256).expect("something");
        assert_eq!((cut.content.as_str(), cut.dropped_bytes), ("## About You\n\n[...truncated]", 300));
    }

    #[test]
    fn stored_text_opens_no_section() {
        for (text, safe) in [
            ("## About You", "\\## About You"),
            ("a\n  # b", "a\n  \\# b"),
            ("a\r## b\u{2028}## c\u{85}## d", "a\r\\## b\u{2028}\\## c\u{85}\\## d"),
            ("a\n\u{200b}\u{202e}## b", "a\n\u{200b}\u{202e}\\## b"),
            ("a\n＃ b", "a\n\\＃ b"),
            ("a\n\u{2800}## b", "a\n\u{2800}\\## b"),
            ("About You\n===", "About You\n\\==="),
            ("About You\n -- \nb", "About You\n \\-- \nb"),
            ("```sh\nls\n```", "\\```sh\nls\n\\```"),
            ("~~~", "\\~~~"),
        ] {
            assert_eq!(neutralised(text), safe, "{text:?}");
        }
        for text in ["C# and F#", "- a list\n- of things", "a = b", "1. one\n\n2. two --", "`code`", "issue #7\n"] {
            assert_eq!(neutralised(text), text);
        }
    }

    #[test]
    fn a_warning_comes_first_and_counts() {
        let rendered = render("", "", Some("gone"), 256).expect("the warning");
        assert_eq!(rendered.content, "[gone]");
        assert_eq!(render("p", "", Some("gone"), 256).expect("both").content, "[gone]\n\n## About You\n\np");
    }

    proptest! {
        #[test]
        fn every_line_is_whole_and_none_is_a_heading_of_the_text(
            profile in "[a-c#é\n]{0,200}", memory in "[a-c#é\n]{0,200}", budget in 64_usize..400
        ) {
            let (profile, memory) = (super::super::update::trim(&profile), super::super::update::trim(&memory));
            let Some(rendered) = render(profile, memory, None, budget) else { return Ok(()) };
            prop_assert!(rendered.content.len() <= budget);
            let texts = [neutralised(profile), neutralised(memory)];
            let own = ["", "## About You", "## Memory", "[...truncated]"];
            for line in rendered.content.lines() {
                let is_stored = texts.iter().any(|text| text.split('\n').any(|stored| stored.trim_end() == line.trim_end()));
                prop_assert!(own.contains(&line) || is_stored && !line.starts_with('#'), "{line:?}");
            }
            if rendered.dropped_bytes == 0 {
                prop_assert_eq!(rendered.content, render(profile, memory, None, usize::MAX).expect("the same").content);
            }
        }
    }
}
