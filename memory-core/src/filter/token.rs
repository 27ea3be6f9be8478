//! The tokenizer of predicates.

use std::fmt;

use crate::{Error, Result};

/// A token of a predicate.
#[derive(PartialEq)]
pub(super) enum Token<'a> {
    /// A keyword, a field or a key: letters, digits and `_`, not starting with a digit.
    Word(&'a str),
    /// Text in double quotes.
    Quoted(String),
    /// Text in single quotes.
    Text(String),
    /// A number without its sign.
    Number(&'a str),
    /// A run of `=`, `<`, `>` and `!`, or any other character.
    Symbol(&'a str),
    /// The end of the text.
    End,
}

/// The position of a token. Errors show it instead of the text, which is payload.
#[derive(Clone, Copy)]
pub(super) enum Place {
    At { line: usize, column: usize },
    End,
}

/// Iterates over the tokens of a text.
pub(super) struct Tokens<'a> {
    rest: &'a str,
    line: usize,
    column: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text, line: 1, column: 1 }
    }

    /// Returns the next token and its position.
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

/// Returns the text between the quotes at the start, and its length with the quotes. A doubled quote stands for one.
fn quoted(text: &str, quote: char, place: Place) -> Result<(String, usize)> {
    let mut inner = String::new();
    let mut rest = &text[quote.len_utf8()..];
    loop {
        let Some((part, behind)) = rest.split_once(quote) else {
            return Err(Error::invalid(format!("a quote is left open at {place}")));
        };
        inner.push_str(part);
        // No record holds U+0000, and not every engine accepts it in a query.
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

/// Returns the number at the start of a text: digits around a point, and an exponent. Empty if there is none.
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

/// Returns the longest prefix whose characters satisfy a predicate.
fn leading(text: &str, is_of_kind: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|char| !is_of_kind(char)).unwrap_or(text.len())]
}
