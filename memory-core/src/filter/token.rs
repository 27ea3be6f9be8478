//! From text to tokens.

use std::fmt;

use crate::{Error, Result};

/// A piece of a predicate.
#[derive(PartialEq)]
pub(super) enum Token<'a> {
    /// A keyword, a field or a key: letters, digits and `_`, with no digit in front.
    Word(&'a str),
    /// What stands between double quotes.
    Quoted(String),
    /// What stands between single quotes.
    Text(String),
    /// A number without its sign.
    Number(&'a str),
    /// A run of `=`, `<`, `>` and `!`, or any other character.
    Symbol(&'a str),
    /// There is no more.
    End,
}

/// Where a token starts. Errors show it instead of the text, which is payload.
#[derive(Clone, Copy)]
pub(super) enum Place {
    At { line: usize, column: usize },
    End,
}

/// Reads one token after the other.
pub(super) struct Tokens<'a> {
    rest: &'a str,
    line: usize,
    column: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text, line: 1, column: 1 }
    }

    /// The next token and its place.
    pub(super) fn next(&mut self) -> Result<(Token<'a>, Place)> {
        self.skip(self.rest.len() - self.rest.trim_start().len());
        let rest = self.rest;
        let Some(first) = rest.chars().next() else { return Ok((Token::End, Place::End)) };
        let place = Place::At { line: self.line, column: self.column };
        if rest.starts_with("--") || rest.starts_with("/*") {
            return Err(Error::invalid(format!("comments are not allowed, as at {place}")));
        }
        let (token, length) = match first {
            '\'' => quoted(rest, '\'', place).map(|(text, length)| (Token::Text(text), length))?,
            '"' => quoted(rest, '"', place).map(|(text, length)| (Token::Quoted(text), length))?,
            _ if first.is_alphabetic() || first == '_' => {
                let word = leading(rest, |char| char.is_alphanumeric() || char == '_');
                (Token::Word(word), word.len())
            }
            '=' | '<' | '>' | '!' => {
                let symbol = leading(rest, |char| matches!(char, '=' | '<' | '>' | '!'));
                (Token::Symbol(symbol), symbol.len())
            }
            _ => match number(rest) {
                "" => (Token::Symbol(&rest[..first.len_utf8()]), first.len_utf8()),
                number => (Token::Number(number), number.len()),
            },
        };
        self.skip(length);
        Ok((token, place))
    }

    fn skip(&mut self, length: usize) {
        let (skipped, rest) = self.rest.split_at(length);
        for char in skipped.chars() {
            (self.line, self.column) = if char == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        }
        self.rest = rest;
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At { line: 1, column } => write!(f, "column {column}"),
            Self::At { line, column } => write!(f, "line {line} column {column}"),
            Self::End => f.write_str("the end"),
        }
    }
}

/// What stands between the quotes that a text starts with, and how long it is with them. A doubled quote stands for one.
fn quoted(text: &str, quote: char, place: Place) -> Result<(String, usize)> {
    let mut inner = String::new();
    let mut rest = &text[quote.len_utf8()..];
    loop {
        let Some((part, behind)) = rest.split_once(quote) else {
            return Err(Error::invalid(format!("a quote is left open at {place}")));
        };
        inner.push_str(part);
        // No record holds it, and not every engine can be asked for it.
        if part.contains('\0') {
            return Err(Error::invalid(format!("U+0000 is not allowed, as at {place}")));
        }
        match behind.strip_prefix(quote) {
            Some(behind) => {
                inner.push(quote);
                rest = behind;
            }
            None => return Ok((inner, text.len() - behind.len())),
        }
    }
}

/// The number that a text starts with: digits around a point, and an exponent. Empty when there is none.
fn number(text: &str) -> &str {
    let digits = |from: usize| leading(&text[from..], |char| char.is_ascii_digit()).len();
    let mut end = digits(0);
    if text[end..].starts_with('.') && (end > 0 || digits(1) > 0) {
        end += 1 + digits(end + 1);
    }
    if end > 0 && text[end..].starts_with(['e', 'E']) {
        let exponent = end + 1 + usize::from(text[end + 1..].starts_with(['+', '-']));
        if digits(exponent) > 0 {
            end = exponent + digits(exponent);
        }
    }
    &text[..end]
}

/// What a text starts with, as far as its characters are of a kind.
fn leading(text: &str, is_of_kind: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|char| !is_of_kind(char)).unwrap_or(text.len())]
}
