//! Streams the text of an answer.

use tokio::sync::mpsc::UnboundedSender;

use super::answer::{IGNORE, MAX_ANSWER, THINKING, form_in};
use super::piece::{BETWEEN, Piece};
use crate::state::ToolResult;

/// Passes on the text of a model as it is generated, as far as it is plain text. If a form was asked for, a text that begins like XML, JSON
/// or a code fence is held back until it is parsed and said, and so is any text from the first tag of the form on, or from the first object
/// in JSON on. If plain text was asked for, a text that begins with thinking is held back, and so is a beginning that may become `IGNORE`.
pub(super) struct Streamed {
    pieces: UnboundedSender<Piece>,
    /// Whether the model was asked for plain text.
    is_plain: bool,
    /// The text of the model since this call began.
    written: String,
    /// How much of it was passed on, without leading white space.
    passed: usize,
    /// Whether the rest is held back until it is said.
    is_held: bool,
    /// Whether something was passed on before.
    has_said: bool,
}

/// The longest beginning of a tag that is held back, in bytes.
const TAG: usize = 64;

impl Streamed {
    pub(super) fn new(pieces: UnboundedSender<Piece>) -> Self {
        Self { pieces, is_plain: false, written: String::new(), passed: 0, is_held: false, has_said: false }
    }

    /// Starts a model call, which asks for plain text or for a form.
    pub(super) fn begin(&mut self, is_plain: bool) {
        self.is_plain = is_plain;
        self.ends();
    }

    /// Ends the present text, so that the next one is separated from it, whether it became an answer or was refused.
    fn ends(&mut self) {
        self.has_said |= self.passed > 0;
        (self.written, self.passed, self.is_held) = (String::new(), 0, false);
    }

    /// Takes the next text of the model.
    pub(super) fn piece(&mut self, text: &str) {
        self.is_held |= self.written.len() + text.len() > MAX_ANSWER;
        if self.is_held {
            return;
        }
        self.written.push_str(text);
        let text = self.written.trim_start();
        let rest = &text[self.passed..];
        let form = match self.is_plain {
            // Held back until it is clear whether the text is one of these words or only begins like it.
            true if [IGNORE, THINKING].iter().any(|word| word.starts_with(text.trim_end())) => return,
            true if text.starts_with(THINKING) => Some(0),
            true => None,
            false if text.starts_with(['<', '{', '`']) => Some(0),
            false => form_in(rest),
        };
        let whole = if self.is_plain { rest.len() } else { end_of_plain(rest) };
        let piece = rest[..form.unwrap_or(whole)].trim_end().to_owned();
        self.is_held = form.is_some();
        if !piece.is_empty() {
            let length = piece.len();
            self.pass(piece);
            self.passed += length;
        }
    }

    /// Takes a text that the agent says, and passes on the part that was not passed on yet.
    pub(super) fn said(&mut self, text: &str) {
        let passed = &self.written.trim_start()[..self.passed];
        let rest = text.strip_prefix(passed).map(str::to_owned);
        if rest.is_none() {
            // What was passed on is not the beginning of this text, so this text is separated from it.
            self.ends();
        }
        self.pass(rest.unwrap_or_else(|| text.to_owned()));
        self.ends();
        self.has_said = true;
    }

    /// Whether a part of the model's text was passed on.
    pub(super) fn is_heard(&self) -> bool {
        self.passed > 0
    }

    /// Passes on the result of a tool.
    pub(super) fn result(&self, result: &ToolResult) {
        // Fails if the receiver was dropped.
        let _ = self.pieces.send(Piece::Result(result.clone()));
    }

    fn pass(&self, piece: String) {
        if piece.is_empty() {
            return;
        }
        let is_first = self.passed == 0 && self.has_said;
        // Fails if the receiver was dropped.
        let _ = self.pieces.send(Piece::Text(if is_first { format!("{BETWEEN}{piece}") } else { piece }));
    }
}

/// The position of an incomplete tag, or of a brace that may begin an object, at the end of a text; the length of the text if there is none.
fn end_of_plain(text: &str) -> usize {
    let tag = text.rfind('<').filter(|at| !text[*at..].contains('>') && text.len() - at < TAG);
    let object = text.rfind('{').filter(|at| text[at + 1..].trim_start().is_empty());
    tag.into_iter().chain(object).min().unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    /// What is passed on of what a model writes that is asked for a form, and then says.
    fn passed(written: &[&str], said: &[&str]) -> Vec<String> {
        heard(false, written, said)
    }

    /// The same of one that may be asked for plain text.
    fn heard(is_plain: bool, written: &[&str], said: &[&str]) -> Vec<String> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut streamed = Streamed::new(sender);
        streamed.begin(is_plain);
        for piece in written {
            streamed.piece(piece);
        }
        for text in said {
            streamed.said(text);
        }
        drop(streamed);
        texts(receiver)
    }

    fn texts(mut receiver: mpsc::UnboundedReceiver<Piece>) -> Vec<String> {
        let text = |piece: Piece| match piece {
            Piece::Text(text) => text,
            other => panic!("{other:?}"),
        };
        std::iter::from_fn(|| receiver.try_recv().ok()).map(text).collect()
    }

    #[test]
    fn plain_text_is_passed_on_as_it_comes() {
        assert_eq!(passed(&[" It", " rains ", "in Lima.\n"], &["It rains in Lima."]), ["It", " rains", " in Lima."]);
        assert_eq!(passed(&["a < b", " && c", " > d"], &["a < b && c > d"]).concat(), "a < b && c > d");
        assert_eq!(passed(&["One"], &["One", "Two"]), ["One", "\n\nTwo"], "what a tool says stands by itself");
    }

    #[test]
    fn where_plain_text_is_asked_for_all_of_it_is_passed_on() {
        let heard = |written: &[&str], said: &[&str]| heard(true, written, said);
        assert_eq!(heard(&["<te", "xt>Hi", "</text>"], &["<text>Hi</text>"]), ["<te", "xt>Hi", "</text>"]);
        assert_eq!(heard(&["{\"a\": ", "1}"], &["{\"a\": 1}"]), ["{\"a\":", " 1}"]);
        assert_eq!(heard(&["<th", "ink>a</think>", "Hi"], &["Hi"]), ["Hi"]);
        assert_eq!(heard(&["IG", "NO", "RE\n"], &[]), [""; 0]);
        assert_eq!(heard(&["I", " ", "can't"], &["I can't"]), ["I can't"]);
        assert_eq!(heard(&["IGNORE", "D it"], &["IGNORED it"]), ["IGNORED it"]);
        assert_eq!(heard(&["IGN"], &["IGN"]), ["IGN"], "an answer that ends there");
    }

    #[test]
    fn what_was_refused_stands_by_itself() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut streamed = Streamed::new(sender);
        for (written, text) in [(" Well", None), ("  ", None), ("Sure", None), ("Hi", Some("Hi")), ("Bye", Some("Bye"))]
        {
            streamed.begin(false);
            streamed.piece(written);
            text.into_iter().for_each(|text| streamed.said(text));
        }
        drop(streamed);
        assert_eq!(texts(receiver), ["Well", "\n\nSure", "\n\nHi", "\n\nBye"]);
    }

    #[test]
    fn an_answer_in_a_form_is_passed_on_when_it_is_said() {
        for written in [
            &["<resp", "onse><thought>t</thought><text>Hi</text></response>"][..],
            &["{\"text\":", "\"Hi\"}"],
            &["```xml\n<text>Hi</text>```"],
        ] {
            assert_eq!(passed(written, &["Hi"]), ["Hi"]);
        }
        let sure = passed(&["Sure! <thou", "ght>t</thought><text>Hi</text>"], &["Hi"]);
        assert_eq!(sure, ["Sure!", "\n\nHi"], "what stands before it was heard");
        let sure = passed(&["Sure: {", " \"tho", "ught\":\"t\",\"actions\":[\"REPLY\"],\"text\":\"Hi\"}"], &["Hi"]);
        assert_eq!(sure, ["Sure:", "\n\nHi"], "in JSON, too");
        let sure = passed(&["Sure: {", "\"id\": 1", ", \"thought\":\"t\"", "}"], &["Hi"]);
        assert_eq!(sure, ["Sure:", "\n\nHi"], "behind another name");
        let spaces = " ".repeat(2 * TAG);
        let sure = passed(&["Sure: {", &spaces, "\"thought\":\"t\"", "}"], &["Hi"]);
        assert_eq!(sure, ["Sure:", "\n\nHi"], "behind white space");
        assert_eq!(passed(&["a {", " b", "}"], &["a { b}"]).concat(), "a { b}");
        assert_eq!(passed(&["a {", "\"b", "\": 1}"], &["a {\"b\": 1}"]).concat(), "a {\"b\": 1}");
    }
}
