//! The parser of predicates: recursive descent with one token of look-ahead.

use crate::filter::ast::Filter;
use crate::filter::field::Field;
use crate::filter::like::{Case, LikePattern};
use crate::filter::limits::{MAX_DEPTH, MAX_FILTER_BYTES, too_deep, too_long};
use crate::filter::token::{Place, Token, Tokens};
use crate::filter::value::Value;
use crate::{Error, Number, Result};

impl Filter {
    /// Parses a predicate.
    ///
    /// A comparison has a field on the left and a literal on the right: `= <> != < <= > >=`, `[NOT] IN (..)`, `[NOT]
    /// BETWEEN .. AND ..`, `[NOT] LIKE` and `ILIKE` with `ESCAPE`, `IS [NOT] NULL`; `'x' = ANY(metadata.tags)` searches
    /// an array; `AND`, `OR`, `NOT` and parentheses combine. Strings take single quotes, keys that are not plain words
    /// double quotes. Anything else is `InvalidInput` and names its place; over a limit it is `TooLarge`.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser::new(text)?;
        let filter = parser.disjunction(0)?;
        parser.expect_end("AND, OR or the end")?;
        filter.check_limits()?;
        Ok(filter)
    }

    /// Parses a field, such as `createdAt` or `metadata.a."b c"`, to start a condition on it.
    pub fn field(text: &str) -> Result<Field> {
        text.parse()
    }
}

impl std::str::FromStr for Field {
    type Err = Error;

    /// Parses a field as a predicate writes it, such as `metadata.a."b c"`.
    fn from_str(text: &str) -> Result<Self> {
        let mut parser = Parser::new(text)?;
        let field = parser.field()?;
        parser.expect_end("the end")?;
        Ok(field)
    }
}

/// Recurses only for NOT and parentheses, so no deeper than [`MAX_DEPTH`].
struct Parser<'a> {
    tokens: Tokens<'a>,
    /// The next token.
    token: Token<'a>,
    place: Place,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self> {
        if text.len() > MAX_FILTER_BYTES {
            return Err(too_long(text.len()));
        }
        let mut tokens = Tokens::new(text);
        match tokens.next()? {
            (Token::End, _) => Err(Error::invalid("a filter must not be empty")),
            (token, place) => Ok(Self { tokens, token, place }),
        }
    }

    /// Parses operands of OR, below `level` NOTs and parentheses.
    fn disjunction(&mut self, level: usize) -> Result<Filter> {
        let mut filter = self.conjunction(level)?;
        while self.skip_word("OR")? {
            filter = filter.or(self.conjunction(level)?);
        }
        Ok(filter)
    }

    fn conjunction(&mut self, level: usize) -> Result<Filter> {
        let mut filter = self.operand(level)?;
        while self.skip_word("AND")? {
            filter = filter.and(self.operand(level)?);
        }
        Ok(filter)
    }

    fn operand(&mut self, level: usize) -> Result<Filter> {
        if level > MAX_DEPTH {
            return Err(too_deep());
        }
        if self.skip_word("NOT")? {
            return Ok(self.operand(level + 1)?.negate());
        }
        if self.skip_symbol("(")? {
            let filter = self.disjunction(level + 1)?;
            self.expect_symbol(")", "AND, OR or a closing parenthesis")?;
            return Ok(filter);
        }
        self.condition()
    }

    fn condition(&mut self) -> Result<Filter> {
        let start = self.place;
        if let Some(value) = self.literal()? {
            if !(self.skip_symbol("=")? && self.skip_word("ANY")?) {
                let hint = "literals stand on the right, or before = ANY";
                return Err(Error::invalid(format!("a field is expected at {start}; {hint}")));
            }
            self.expect_symbol("(", "an opening parenthesis")?;
            let field = self.field()?;
            self.expect_symbol(")", "a closing parenthesis")?;
            return Ok(field.any(value));
        }
        let field = self.field()?;
        if let Some(compare) = comparison(&self.token) {
            self.take()?;
            return Ok(compare(field, self.value()?));
        }
        if self.skip_word("IS")? {
            let negated = self.skip_word("NOT")?;
            self.expect_word("NULL", "NULL or NOT NULL")?;
            return Ok(negate_if(negated, field.is_null()));
        }
        let negated = self.skip_word("NOT")?;
        let filter = if self.skip_word("IN")? {
            field.one_of(self.list()?)
        } else if self.skip_word("BETWEEN")? {
            let low = self.value()?;
            self.expect_word("AND", "the AND of BETWEEN")?;
            field.between(low, self.value()?)
        } else if self.skip_word("LIKE")? {
            Filter::Like { field, pattern: self.pattern(Case::Sensitive)? }
        } else if self.skip_word("ILIKE")? {
            Filter::Like { field, pattern: self.pattern(Case::IgnoreAscii)? }
        } else {
            return Err(self.expected(if negated { "IN, BETWEEN, LIKE or ILIKE" } else { "an operator" }));
        };
        Ok(negate_if(negated, filter))
    }

    fn field(&mut self) -> Result<Field> {
        let place = self.place;
        let name = match self.take()? {
            Token::Word(name) => name.to_owned(),
            Token::Quoted(name) => name,
            _ => return Err(Error::invalid(format!("a field is expected at {place}"))),
        };
        if name == Field::METADATA {
            return self.metadata(place);
        }
        let known = Field::PLAIN.into_iter().find(|(known, _)| *known == name);
        known.map(|(_, field)| field).ok_or_else(|| {
            let fields = "id, spaceId, createdAt, updatedAt, status, text, content and metadata.<key>";
            let hint = format!("there are {fields}, and strings take single quotes");
            Error::invalid(format!("unknown field or word at {place}: {hint}"))
        })
    }

    /// Parses the keys after `metadata`, which is at `place`.
    fn metadata(&mut self, place: Place) -> Result<Field> {
        let mut keys = Vec::new();
        while self.is_key_next()? {
            let place = self.place;
            keys.push(match self.take()? {
                Token::Word(key) => key.to_owned(),
                Token::Quoted(key) => key,
                _ => {
                    let hint = "a key that is no plain word takes double quotes";
                    return Err(Error::invalid(format!("a key is expected at {place}; {hint}")));
                }
            });
        }
        if keys.is_empty() {
            return Err(Error::invalid(format!("metadata at {place} needs a key, as in metadata.topic")));
        }
        Ok(Field::Metadata(keys))
    }

    /// Returns whether a key follows after a point. In `.1` the point is part of a number token.
    fn is_key_next(&mut self) -> Result<bool> {
        Ok(matches!(self.token, Token::Number(number) if number.starts_with('.')) || self.skip_symbol(".")?)
    }

    fn list(&mut self) -> Result<Vec<Value>> {
        self.expect_symbol("(", "an opening parenthesis")?;
        let mut values = Vec::new();
        if self.skip_symbol(")")? {
            return Ok(values);
        }
        loop {
            values.push(self.value()?);
            if !self.skip_symbol(",")? {
                self.expect_symbol(")", "a comma or a closing parenthesis")?;
                return Ok(values);
            }
        }
    }

    fn pattern(&mut self, case: Case) -> Result<LikePattern> {
        let place = self.place;
        let Value::String(text) = self.value()? else {
            return Err(Error::invalid(format!("a pattern in single quotes is expected at {place}")));
        };
        let escape = if self.skip_word("ESCAPE")? { Some(self.character()?) } else { None };
        LikePattern::new(&text, escape, case).map_err(|error| Error::invalid(format!("{} at {place}", error.message())))
    }

    fn character(&mut self) -> Result<char> {
        let place = self.place;
        if let Value::String(text) = self.value()? {
            let mut chars = text.chars();
            if let (Some(char), None) = (chars.next(), chars.next()) {
                return Ok(char);
            }
        }
        Err(Error::invalid(format!("one character in single quotes is expected at {place}")))
    }

    /// Parses the right side of an operator.
    fn value(&mut self) -> Result<Value> {
        let hint = if let Token::Word(_) | Token::Quoted(_) = self.token { "; strings take single quotes" } else { "" };
        let place = self.place;
        self.literal()?.ok_or_else(|| Error::invalid(format!("a literal is expected at {place}{hint}")))
    }

    /// Parses a literal if one starts here.
    fn literal(&mut self) -> Result<Option<Value>> {
        let place = self.place;
        if self.skip_word("NULL")? {
            return Err(Error::invalid(format!("nothing equals NULL at {place}: use IS NULL or IS NOT NULL")));
        }
        if self.skip_word("TRUE")? {
            return Ok(Some(Value::Bool(true)));
        }
        if self.skip_word("FALSE")? {
            return Ok(Some(Value::Bool(false)));
        }
        if let Token::Text(text) = &mut self.token {
            let text = std::mem::take(text);
            self.take()?;
            return Ok(Some(Value::String(text)));
        }
        let sign = if self.skip_symbol("-")? { "-" } else { "" };
        match self.token {
            Token::Number(digits) => {
                self.take()?;
                number(sign, digits, place).map(Some)
            }
            _ if sign.is_empty() => Ok(None),
            _ => Err(self.expected("a number")),
        }
    }

    /// Skips a keyword, ignoring its case.
    fn skip_word(&mut self, keyword: &str) -> Result<bool> {
        let is_here = matches!(self.token, Token::Word(word) if word.eq_ignore_ascii_case(keyword));
        if is_here {
            self.take()?;
        }
        Ok(is_here)
    }

    fn skip_symbol(&mut self, symbol: &str) -> Result<bool> {
        let is_here = self.token == Token::Symbol(symbol);
        if is_here {
            self.take()?;
        }
        Ok(is_here)
    }

    fn expect_word(&mut self, keyword: &str, what: &str) -> Result<()> {
        if self.skip_word(keyword)? { Ok(()) } else { Err(self.expected(what)) }
    }

    fn expect_symbol(&mut self, symbol: &str, what: &str) -> Result<()> {
        if self.skip_symbol(symbol)? { Ok(()) } else { Err(self.expected(what)) }
    }

    fn expect_end(&self, what: &str) -> Result<()> {
        if self.token == Token::End { Ok(()) } else { Err(self.expected(what)) }
    }

    /// Returns the current token and advances to the next one.
    fn take(&mut self) -> Result<Token<'a>> {
        let (token, place) = self.tokens.next()?;
        self.place = place;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn expected(&self, what: &str) -> Error {
        Error::invalid(format!("{what} is expected at {}", self.place))
    }
}

/// Returns the constructor of a comparison operator's condition.
fn comparison(token: &Token<'_>) -> Option<fn(Field, Value) -> Filter> {
    match token {
        Token::Symbol("=") => Some(Field::eq),
        Token::Symbol("<>" | "!=") => Some(Field::ne),
        Token::Symbol("<") => Some(Field::lt),
        Token::Symbol("<=") => Some(Field::le),
        Token::Symbol(">") => Some(Field::gt),
        Token::Symbol(">=") => Some(Field::ge),
        _ => None,
    }
}

fn negate_if(negated: bool, filter: Filter) -> Filter {
    if negated { filter.negate() } else { filter }
}

/// Parses a number as metadata does: an integer of 64 bits, or else the nearest `f64`.
fn number(sign: &str, digits: &str, place: Place) -> Result<Value> {
    let text = format!("{sign}{digits}");
    if let Ok(int) = text.parse::<i128>()
        && (i64::try_from(int).is_ok() || u64::try_from(int).is_ok())
    {
        return Ok(Value::Number(Number::Int(int)));
    }
    match text.parse::<f64>() {
        Ok(float) if float.is_finite() => Ok(Value::Number(Number::Float(float))),
        _ => Err(Error::invalid(format!("a number is out of range at {place}"))),
    }
}
