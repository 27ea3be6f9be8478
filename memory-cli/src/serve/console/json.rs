//! Pretty-prints JSON.

use super::text::{MAX_SHOWN, Shown, tame};

/// Formats a JSON text with one line per value. Strings and numbers keep their characters.
pub(super) fn indented(json: &str) -> Shown {
    beginning(json, MAX_SHOWN)
}

/// Like [`indented`], but only the first bytes.
pub(super) fn beginning(json: &str, most: usize) -> Shown {
    let mut lines = Lines::default();
    let mut characters = json.chars().peekable();
    let (mut in_string, mut is_escaped) = (false, false);
    while let Some(character) = characters.next() {
        if lines.text.len() + character.len_utf8() > most {
            lines.text.truncate(lines.text.floor_char_boundary(most));
            return Shown { text: tame(&lines.text), is_cut: true };
        }
        if in_string {
            lines.text.push(character);
            in_string = character != '"' || is_escaped;
            is_escaped = character == '\\' && !is_escaped;
            continue;
        }
        match character {
            '{' | '[' => {
                lines.text.push(character);
                while characters.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                match characters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => lines.text.push(end),
                    None => lines.open(),
                }
            }
            '}' | ']' => lines.close(character),
            ',' => {
                lines.text.push(character);
                lines.next();
            }
            ':' => lines.text.push_str(": "),
            character if character.is_ascii_whitespace() => {}
            character => {
                in_string = character == '"';
                lines.text.push(character);
            }
        }
    }
    Shown { text: tame(&lines.text), is_cut: false }
}

/// The output, and the depth of the position.
#[derive(Default)]
struct Lines {
    text: String,
    depth: usize,
}

impl Lines {
    fn open(&mut self) {
        self.depth += 1;
        self.next();
    }

    fn close(&mut self, end: char) {
        self.depth = self.depth.saturating_sub(1);
        self.next();
        self.text.push(end);
    }

    fn next(&mut self) {
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n("  ", self.depth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_on_lines_as_they_are() {
        let json = r#"{"b":1.50, "a":[ ],"s":"{\"x\":[1,2]} \\","o":{"n":12345678901234567890123}}"#;
        let lines = [
            "{",
            r#"  "b": 1.50,"#,
            r#"  "a": [],"#,
            r#"  "s": "{\"x\":[1,2]} \\","#,
            r#"  "o": {"#,
            r#"    "n": 12345678901234567890123"#,
            "  }",
            "}",
        ];
        assert_eq!(indented(json), Shown { text: lines.join("\n"), is_cut: false });
        assert_eq!(indented("\"a\u{7f}\"").text, "\"a\u{FFFD}\"");
    }

    #[test]
    fn a_long_value_is_cut_and_never_grows() {
        for json in
            [format!("\"{}\"", "é".repeat(1 << 20)), "[".repeat(1 << 20), format!("[{}1]", "1,".repeat(1 << 20))]
        {
            let shown = indented(&json);
            assert!(shown.is_cut && shown.text.len() <= MAX_SHOWN, "{}", shown.text.len());
        }
    }
}
