//! From text to tree. The tokens pass a gate before `sqlparser` sees them, since it reads far more SQL than a filter is, and
//! what it makes of them is reduced to the few forms that a filter has.

use std::fmt;

use sqlparser::ast::{BinaryOperator, Expr, Ident, UnaryOperator, Value as SqlValue, ValueWithSpan};
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace, Word};

use crate::filter::ast::{Filter, Value};
use crate::filter::field::Field;
use crate::filter::like::{Case, LikePattern};
use crate::filter::{
    MAX_CONDITIONS, MAX_DEPTH, MAX_TEXT, MAX_VALUES, too_deep, too_long, too_many_conditions, too_many_values,
};
use crate::{Error, Number, Result};

/// How deeply `sqlparser` may recurse: about three calls for each level that the gate lets pass.
const MAX_RECURSION: usize = 100;

/// Reads a predicate. The tree may still be over a limit.
pub(super) fn filter(text: &str) -> Result<Filter> {
    reduce(&expression(text)?)
}

/// Reads a field alone.
pub(super) fn field(text: &str) -> Result<Field> {
    field_of(&expression(text)?)
}

fn expression(text: &str) -> Result<Expr> {
    let tokens = Gate::pass(text)?;
    let mut parser = Parser::new(&FilterDialect).with_recursion_limit(MAX_RECURSION).with_tokens_with_locations(tokens);
    let expr = parser.parse_expr().map_err(|error| match error {
        ParserError::RecursionLimitExceeded => too_deep(),
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => {
            Error::invalid(format!("not a filter at {}", Place::in_message(&message)))
        }
    })?;
    match parser.peek_token_ref() {
        TokenWithSpan { token: Token::EOF, .. } => Ok(expr),
        rest => Err(unexpected(Place(rest.span.start))),
    }
}

/// Plain words are Unicode letters, digits and `_`; only `"` quotes a name.
#[derive(Debug)]
struct FilterDialect;

impl Dialect for FilterDialect {
    fn is_identifier_start(&self, char: char) -> bool {
        char.is_alphabetic() || char == '_'
    }

    fn is_identifier_part(&self, char: char) -> bool {
        char.is_alphanumeric() || char == '_'
    }

    fn is_delimited_identifier_start(&self, char: char) -> bool {
        char == '"'
    }

    fn supports_in_empty_list(&self) -> bool {
        true
    }
}

/// Where in the text something is. Shown instead of the text, which is payload.
#[derive(Clone, Copy)]
struct Place(Location);

impl Place {
    /// The place that the parser's message ends with; the message itself may quote the text.
    fn in_message(message: &str) -> Self {
        let place = message.rsplit_once(" at Line: ").and_then(|(_, place)| {
            let (line, column) = place.split_once(", Column: ")?;
            Some(Location { line: line.parse().ok()?, column: column.parse().ok()? })
        });
        Self(place.unwrap_or(Location { line: 0, column: 0 }))
    }

    /// Where an expression starts. A loop, since a chain of operators is as deep as it is long.
    fn of(expr: &Expr) -> Self {
        let mut expr = expr;
        loop {
            expr = match expr {
                Expr::Identifier(ident) => return Self(ident.span.start),
                Expr::CompoundIdentifier(idents) => {
                    return Self(idents.first().map_or(Location { line: 0, column: 0 }, |ident| ident.span.start));
                }
                Expr::Value(value) => return Self(value.span.start),
                Expr::BinaryOp { left, .. } | Expr::AnyOp { left, .. } => left,
                Expr::Nested(inner)
                | Expr::IsNull(inner)
                | Expr::IsNotNull(inner)
                | Expr::IsTrue(inner)
                | Expr::IsNotTrue(inner)
                | Expr::IsFalse(inner)
                | Expr::IsNotFalse(inner) => inner,
                Expr::UnaryOp { expr, .. }
                | Expr::InList { expr, .. }
                | Expr::Between { expr, .. }
                | Expr::Like { expr, .. }
                | Expr::ILike { expr, .. } => expr,
                // The gate lets nothing else pass that has a place of its own.
                _ => return Self(Location { line: 1, column: 1 }),
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Location { line: 0, .. } => f.write_str("the end"),
            Location { line: 1, column } => write!(f, "column {column}"),
            Location { line, column } => write!(f, "line {line} column {column}"),
        }
    }
}

/// Lets tokens pass that a filter can have, in numbers and depths that it can have.
#[derive(Default)]
struct Gate {
    passed: Vec<TokenWithSpan>,
    /// The open parentheses.
    groups: Vec<Group>,
    /// How many parentheses and NOTs the next condition stands under.
    level: usize,
    /// How many NOTs stand directly before the next condition.
    nots: usize,
    operators: usize,
    connectives: usize,
}

struct Group {
    /// The level outside.
    level: usize,
    /// For the list of IN or ANY, how many commas it has.
    commas: Option<usize>,
}

impl Gate {
    fn pass(text: &str) -> Result<Vec<TokenWithSpan>> {
        if text.len() > MAX_TEXT {
            return Err(too_long(text.len()));
        }
        let tokens = Tokenizer::new(&FilterDialect, text).tokenize_with_location().map_err(|error| {
            Error::invalid(format!("not readable at {}; is a quote left open?", Place(error.location)))
        })?;
        let mut gate = Self::default();
        for token in tokens {
            gate.admit(token)?;
        }
        if gate.passed.is_empty() {
            return Err(Error::invalid("a filter must not be empty"));
        }
        Ok(gate.passed)
    }

    fn admit(&mut self, TokenWithSpan { mut token, span }: TokenWithSpan) -> Result<()> {
        let place = Place(span.start);
        if let Token::Whitespace(white) = &token {
            return match white {
                Whitespace::Space | Whitespace::Newline | Whitespace::Tab => Ok(()),
                _ => Err(Error::invalid(format!("comments are not allowed, as at {place}"))),
            };
        }
        match (self.last(), &token) {
            (Some(Token::Period), other) if !matches!(other, Token::Word(_)) => {
                let hint = "a key that is no plain word takes double quotes";
                return Err(Error::invalid(format!("a key is expected at {place}; {hint}")));
            }
            (Some(Token::Minus), other) if !matches!(other, Token::Number(..)) => return Err(unexpected(place)),
            _ => {}
        }
        let mut nots = 0;
        match &mut token {
            Token::Word(word) => nots = self.word(word, place)?,
            Token::Number(_, false) | Token::Minus => {}
            Token::SingleQuotedString(text) if !text.contains('\0') => {}
            Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq => self.operator()?,
            Token::Period if matches!(self.last(), Some(token) if is_name(token)) => {}
            Token::LParen => self.open(place)?,
            Token::RParen => {
                let group = self.groups.pop().ok_or_else(|| unexpected(place))?;
                self.level = group.level;
            }
            Token::Comma => match self.groups.last_mut() {
                Some(Group { commas: Some(commas), .. }) => {
                    *commas += 1;
                    if *commas >= MAX_VALUES {
                        return Err(too_many_values());
                    }
                }
                _ => return Err(unexpected(place)),
            },
            _ => return Err(unexpected(place)),
        }
        self.nots = nots;
        self.passed.push(TokenWithSpan { token, span });
        Ok(())
    }

    /// Turns names into quoted ones, so that the parser never takes one for a keyword. Returns how many NOTs stand here.
    fn word(&mut self, word: &mut Word, place: Place) -> Result<usize> {
        let quoted = word.quote_style.is_some();
        let is_key = matches!(self.last(), Some(Token::Period));
        let is_field = word.value == Field::METADATA || Field::PLAIN.iter().any(|(name, _)| *name == word.value);
        if quoted || is_key || is_field {
            if word.value.contains('\0') {
                return Err(unexpected(place));
            }
            word.quote_style = Some('"');
            word.keyword = Keyword::NoKeyword;
            return Ok(0);
        }
        match word.keyword {
            Keyword::NOT if self.is_at_condition() => {
                if self.level + self.nots >= MAX_DEPTH {
                    return Err(too_deep());
                }
                return Ok(self.nots + 1);
            }
            Keyword::AND | Keyword::OR => {
                self.connectives += 1;
                // Each condition takes one to join it, and one more when it is a BETWEEN.
                if self.connectives >= 2 * MAX_CONDITIONS {
                    return Err(too_many_conditions());
                }
            }
            Keyword::IN | Keyword::BETWEEN | Keyword::LIKE | Keyword::ILIKE | Keyword::IS => self.operator()?,
            // The parser would take `x NOT NULL` for `x IS NOT NULL`.
            Keyword::NULL if self.last_keyword() == Some(Keyword::NOT) && !self.is_behind_is() => {
                return Err(unexpected(place));
            }
            Keyword::NOT | Keyword::ESCAPE | Keyword::NULL | Keyword::ANY | Keyword::TRUE | Keyword::FALSE => {}
            _ => return Err(unknown_field(place)),
        }
        Ok(0)
    }

    fn operator(&mut self) -> Result<()> {
        self.operators += 1;
        if self.operators > MAX_CONDITIONS { Err(too_many_conditions()) } else { Ok(()) }
    }

    fn open(&mut self, place: Place) -> Result<()> {
        let is_list = matches!(self.last_keyword(), Some(Keyword::IN | Keyword::ANY));
        let in_list = matches!(self.groups.last(), Some(Group { commas: Some(_), .. }));
        // A parenthesis behind a name would call a function.
        if in_list || !(is_list || self.is_at_condition()) {
            return Err(unexpected(place));
        }
        self.groups.push(Group { level: self.level, commas: is_list.then_some(0) });
        if !is_list {
            self.level += self.nots + 1;
            if self.level > MAX_DEPTH {
                return Err(too_deep());
            }
        }
        Ok(())
    }

    /// Whether a condition starts here.
    fn is_at_condition(&self) -> bool {
        matches!(self.last(), None | Some(Token::LParen))
            || matches!(self.last_keyword(), Some(Keyword::AND | Keyword::OR | Keyword::NOT))
    }

    /// Whether the token before the last one is IS.
    fn is_behind_is(&self) -> bool {
        let before = self.passed.len().checked_sub(2).map(|index| &self.passed[index].token);
        matches!(before, Some(Token::Word(word)) if word.keyword == Keyword::IS)
    }

    fn last(&self) -> Option<&Token> {
        self.passed.last().map(|passed| &passed.token)
    }

    fn last_keyword(&self) -> Option<Keyword> {
        match self.last() {
            Some(Token::Word(word)) => Some(word.keyword),
            _ => None,
        }
    }
}

/// Whether a token is one that the gate took for a name.
fn is_name(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_some())
}

/// Turns an expression into a filter. The gate bounds how deep it goes; chains of AND and OR are walked in a loop.
fn reduce(expr: &Expr) -> Result<Filter> {
    match expr {
        Expr::Nested(inner) => reduce(inner),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => Ok(reduce(expr)?.negate()),
        Expr::BinaryOp { op: BinaryOperator::And, .. } => chain(expr, &BinaryOperator::And, Filter::and),
        Expr::BinaryOp { op: BinaryOperator::Or, .. } => chain(expr, &BinaryOperator::Or, Filter::or),
        Expr::BinaryOp { left, op, right } => compare(left, op, right),
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, is_some: false } => {
            let value = literal(left)?;
            Ok(field_of(right)?.any(value))
        }
        Expr::IsNull(inner) => Ok(field_of(inner)?.is_null()),
        Expr::IsNotNull(inner) => Ok(field_of(inner)?.is_not_null()),
        Expr::InList { expr, list, negated } => {
            let field = field_of(expr)?;
            let values: Vec<Value> = list.iter().map(literal).collect::<Result<_>>()?;
            Ok(negate_if(*negated, field.one_of(values)))
        }
        Expr::Between { expr, negated, low, high } => {
            let field = field_of(expr)?;
            Ok(negate_if(*negated, field.between(literal(low)?, literal(high)?)))
        }
        Expr::Like { negated, any: false, expr, pattern, escape_char } => {
            like(expr, pattern, escape_char.as_deref(), Case::Sensitive).map(|filter| negate_if(*negated, filter))
        }
        Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
            like(expr, pattern, escape_char.as_deref(), Case::IgnoreAscii).map(|filter| negate_if(*negated, filter))
        }
        other => Err(Error::invalid(format!("a condition is expected at {}", Place::of(other)))),
    }
}

fn negate_if(negated: bool, filter: Filter) -> Filter {
    if negated { filter.negate() } else { filter }
}

/// Reduces the operands of a chain of one operator, which hangs to the left.
fn chain(expr: &Expr, operator: &BinaryOperator, join: fn(Filter, Filter) -> Filter) -> Result<Filter> {
    let mut operands = Vec::new();
    let mut first = expr;
    while let Expr::BinaryOp { left, op, right } = first
        && op == operator
    {
        operands.push(right);
        first = left;
    }
    operands.into_iter().rev().try_fold(reduce(first)?, |filter, operand| Ok(join(filter, reduce(operand)?)))
}

fn compare(left: &Expr, operator: &BinaryOperator, right: &Expr) -> Result<Filter> {
    let field = field_of(left)?;
    let value = literal(right)?;
    match operator {
        BinaryOperator::Eq => Ok(field.eq(value)),
        BinaryOperator::NotEq => Ok(field.ne(value)),
        BinaryOperator::Lt => Ok(field.lt(value)),
        BinaryOperator::LtEq => Ok(field.le(value)),
        BinaryOperator::Gt => Ok(field.gt(value)),
        BinaryOperator::GtEq => Ok(field.ge(value)),
        _ => Err(Error::invalid(format!("a comparison is expected at {}", Place::of(left)))),
    }
}

fn like(expr: &Expr, pattern: &Expr, escape: Option<&Expr>, case: Case) -> Result<Filter> {
    let field = field_of(expr)?;
    let escape = escape.map(escape_character).transpose()?;
    let place = Place::of(pattern);
    match literal(pattern)? {
        Value::String(text) => {
            let pattern = LikePattern::new(&text, escape, case)
                .map_err(|error| Error::invalid(format!("{} at {place}", error.message())))?;
            Ok(Filter::Like { field, pattern })
        }
        _ => Err(Error::invalid(format!("a pattern in single quotes is expected at {place}"))),
    }
}

fn escape_character(expr: &Expr) -> Result<char> {
    if let Value::String(text) = literal(expr)? {
        let mut chars = text.chars();
        if let (Some(char), None) = (chars.next(), chars.next()) {
            return Ok(char);
        }
    }
    Err(Error::invalid(format!("one character in single quotes is expected at {}", Place::of(expr))))
}

fn field_of(expr: &Expr) -> Result<Field> {
    let path: &[Ident] = match expr {
        Expr::Identifier(ident) => std::slice::from_ref(ident),
        Expr::CompoundIdentifier(idents) => idents,
        other => {
            let place = Place::of(other);
            return Err(Error::invalid(format!("a field is expected at {place}; literals stand on the right")));
        }
    };
    let place = Place::of(expr);
    match path {
        // What has no quotes was not taken for a name by the gate.
        [root, ..] if root.quote_style.is_none() => Err(unexpected(place)),
        [name] if name.value == Field::METADATA => {
            Err(Error::invalid(format!("metadata at {place} needs a key, as in metadata.topic")))
        }
        [name] => {
            let known = Field::PLAIN.into_iter().find(|(known, _)| *known == name.value);
            known.map(|(_, field)| field).ok_or_else(|| unknown_field(place))
        }
        [root, keys @ ..] if root.value == Field::METADATA => {
            Ok(Field::metadata(keys.iter().map(|key| key.value.as_str())))
        }
        _ => Err(unknown_field(place)),
    }
}

fn literal(expr: &Expr) -> Result<Value> {
    let place = Place::of(expr);
    match expr {
        Expr::Value(ValueWithSpan { value, .. }) => match value {
            SqlValue::Number(digits, _) => number("", digits, place),
            SqlValue::SingleQuotedString(text) => Ok(Value::String(text.clone())),
            SqlValue::Boolean(value) => Ok(Value::Bool(*value)),
            SqlValue::Null => {
                Err(Error::invalid(format!("nothing equals NULL at {place}: use IS NULL or IS NOT NULL")))
            }
            _ => Err(unexpected(place)),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(ValueWithSpan { value: SqlValue::Number(digits, _), .. }) => number("-", digits, place),
            _ => Err(unexpected(place)),
        },
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
            Err(Error::invalid(format!("a literal is expected at {place}; strings take single quotes")))
        }
        _ => Err(Error::invalid(format!("a literal is expected at {place}"))),
    }
}

/// Reads a number as metadata does: an integer of 64 bits, or else the nearest `f64`.
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

fn unexpected(place: Place) -> Error {
    Error::invalid(format!("what stands at {place} has no meaning in a filter"))
}

fn unknown_field(place: Place) -> Error {
    let fields = "id, spaceId, createdAt, updatedAt, status, text, content and metadata.<key>";
    Error::invalid(format!("unknown field or word at {place}: there are {fields}, and strings take single quotes"))
}
