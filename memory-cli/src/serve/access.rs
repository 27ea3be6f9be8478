//! Who may do what: tokens and the scopes that they stand for.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Context as _, bail};
use memory_core::filter::Field;
use memory_core::plugin::Scope;
use memory_core::{
    Collection, Document, Error, ErrorKind, Filter, Memory, QueryBuilder, Result, SpaceId, SpaceSelector, Spaces,
};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What a caller may do.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// For logs.
    pub(crate) name: String,
    /// Which spaces it may read.
    pub(crate) readable: Spaces,
    /// Where it may write.
    pub(crate) writable: Writable,
    /// Which collections it may use; any when `None`.
    pub(crate) collections: Option<Vec<Collection>>,
    /// What it may do to the ledger.
    pub(crate) ledger: LedgerAccess,
}

/// Where a caller may write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Writable {
    Nowhere,
    /// This space and all below it.
    Under(SpaceId),
    Everywhere,
}

/// What a caller may do to the ledger, where it may read or write at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LedgerAccess {
    /// Recall.
    #[default]
    Read,
    /// Also store and update, as the runtime of an agent does.
    Write,
}

impl Access {
    /// Everything: for who has the machine.
    pub(crate) fn unlimited() -> Self {
        Self {
            name: "local".to_owned(),
            readable: Spaces::All,
            writable: Writable::Everywhere,
            collections: None,
            ledger: LedgerAccess::Write,
        }
    }

    /// The scope of the memory plugin.
    pub(crate) fn scope(&self) -> Scope {
        let scope = Scope::new(self.readable.clone()).with_collections(self.collections.iter().flatten().cloned());
        match &self.writable {
            Writable::Under(space) => scope.with_writable(space.clone()),
            Writable::Nowhere | Writable::Everywhere => scope,
        }
    }

    /// Confines a query to what may be read.
    pub(crate) fn confine<K: memory_core::Kind>(&self, query: QueryBuilder<K>) -> QueryBuilder<K> {
        match &self.readable {
            Spaces::All => query,
            spaces => query.within(spaces.clone()),
        }
    }

    /// Whether a memory shows.
    pub(crate) fn may_read(&self, memory: &Memory) -> bool {
        self.readable.matches(memory.space_id.as_str())
    }

    /// Whether a document shows.
    pub(crate) fn may_read_document(&self, document: &Document) -> bool {
        self.readable.matches(document.space_id.as_str())
    }

    /// `Unauthorized` unless this space may be written.
    pub(crate) fn check_write(&self, space: &SpaceId) -> Result<()> {
        let allowed = match &self.writable {
            Writable::Nowhere => false,
            Writable::Under(path) => SpaceSelector::under(path)?.matches(space.as_str()),
            Writable::Everywhere => true,
        };
        if allowed { Ok(()) } else { Err(unauthorized("this space may not be written")) }
    }

    /// `Unauthorized` unless the ledger may be written at all.
    pub(crate) fn check_ledger_write(&self) -> Result<()> {
        match self.ledger {
            LedgerAccess::Write => Ok(()),
            LedgerAccess::Read => Err(unauthorized("the ledger may only be read")),
        }
    }

    /// `Unauthorized` unless this collection may be used.
    pub(crate) fn check_collection(&self, collection: &Collection) -> Result<()> {
        match &self.collections {
            Some(collections) if !collections.contains(collection) => {
                Err(unauthorized("this collection may not be used"))
            }
            _ => Ok(()),
        }
    }

    /// The condition that documents may be written; `None` when all may.
    pub(crate) fn write_filter(&self) -> Result<Option<Filter>> {
        match &self.writable {
            Writable::Nowhere => Err(unauthorized("nothing may be written")),
            Writable::Under(path) => Ok(Some(is_under(path))),
            Writable::Everywhere => Ok(None),
        }
    }
}

fn unauthorized(message: &str) -> Error {
    Error::new(ErrorKind::Unauthorized, message)
}

/// What [`SpaceSelector::under`] finds, as a filter: for where a query has selectors of its own.
fn is_under(path: &SpaceId) -> Filter {
    let path = path.as_str();
    let starts_with = |start: String| {
        // The boundaries are ASCII, and so is what follows each.
        let mut end = start.clone().into_bytes();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let end = String::from_utf8(end).unwrap_or_default();
        Field::SpaceId.ge(start).and(Field::SpaceId.lt(end))
    };
    if path.ends_with(memory_core::BOUNDARIES) {
        return starts_with(path.to_owned());
    }
    memory_core::BOUNDARIES
        .into_iter()
        .fold(Field::SpaceId.eq(path), |filter, boundary| filter.or(starts_with(format!("{path}{boundary}"))))
}

/// The tokens of a configuration file.
#[derive(Debug)]
pub(crate) struct Tokens(Vec<Token>);

struct Token {
    digest: [u8; 32],
    access: Access,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.access.name)
    }
}

/// The shortest token, in bytes: what can't be guessed over a network.
const MIN_TOKEN: usize = 16;

impl Tokens {
    /// Reads a file. Errors name the line and never show it, since it may hold a token.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text).map_err(|error| {
            let end = error.span().map_or(0, |span| span.start).min(text.len());
            let line = text.as_bytes()[..end].iter().filter(|byte| **byte == b'\n').count() + 1;
            anyhow::anyhow!("line {line}: {}", reason(error.message()))
        })?;
        let mut names = BTreeSet::new();
        let mut tokens = Vec::new();
        for entry in file.token {
            let name = entry.name.clone();
            if !names.insert(name.clone()) {
                bail!("two tokens are called {name}");
            }
            let token = entry.into_token().with_context(|| format!("token {name}"))?;
            if tokens.iter().any(|other: &Token| other.digest == token.digest) {
                bail!("token {name}: another entry has the same token");
            }
            tokens.push(token);
        }
        if tokens.is_empty() {
            bail!("there is no [[token]] in it");
        }
        Ok(Self(tokens))
    }

    /// What a token stands for. Takes the same time for every token that is none.
    pub(crate) fn find(&self, token: &str) -> Option<&Access> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let found = self.0.iter().filter(|known| bool::from(known.digest.ct_eq(&digest)));
        // All are compared before one is taken.
        found.collect::<Vec<_>>().first().map(|token| &token.access)
    }
}

/// What the parser says, without the values that it quotes.
fn reason(message: &str) -> &str {
    match message.split_once(", expected ") {
        Some((start, expected)) if start.starts_with("invalid") => expected,
        _ => message,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    token: String,
    #[serde(default)]
    read: Vec<Readable>,
    write: Option<String>,
    #[serde(default)]
    collections: Vec<String>,
    #[serde(default)]
    ledger: LedgerAccess,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Readable {
    All,
    Exact(String),
    Under(String),
    Prefix(String),
    Glob(String),
    Regex(String),
}

impl Entry {
    fn into_token(self) -> anyhow::Result<Token> {
        if self.token.len() < MIN_TOKEN {
            bail!("a token has at least {MIN_TOKEN} bytes");
        }
        let message = |error: Error| anyhow::anyhow!("{}", error.message());
        let mut selectors = Vec::new();
        let mut reads_all = false;
        for readable in &self.read {
            selectors.push(match readable {
                Readable::All => {
                    reads_all = true;
                    continue;
                }
                Readable::Exact(id) => SpaceSelector::exact(id).map_err(message)?,
                Readable::Under(path) => SpaceSelector::under(path).map_err(message)?,
                Readable::Prefix(prefix) => SpaceSelector::prefix(prefix).map_err(message)?,
                Readable::Glob(pattern) => SpaceSelector::glob(pattern).map_err(message)?,
                Readable::Regex(pattern) => SpaceSelector::regex(pattern).map_err(message)?,
            });
        }
        let collections: Vec<_> =
            self.collections.iter().map(Collection::parse).collect::<Result<_>>().map_err(message)?;
        if let Some(reserved) = collections.iter().find(|collection| collection.is_reserved()) {
            bail!("the collection {reserved} is reserved");
        }
        let access = Access {
            name: self.name,
            readable: if reads_all { Spaces::All } else { Spaces::Any(selectors) },
            writable: match self.write {
                Some(space) => Writable::Under(SpaceId::parse(space).map_err(message)?),
                None => Writable::Nowhere,
            },
            collections: Some(collections),
            ledger: self.ledger,
        };
        Ok(Token { digest: Sha256::digest(&self.token).into(), access })
    }
}

#[cfg(test)]
mod tests {
    use memory_core::filter::Subject;
    use memory_core::{Content, DocumentId, Metadata, Revision, Timestamp};

    use super::*;

    const FILE: &str = r#"
        [[token]]
        name = "bot"
        token = "0123456789abcdef"
        read = [{ under = "guild1" }, { exact = "faq" }]
        write = "guild1-bot"
        collections = ["notes"]

        [[token]]
        name = "runtime"
        token = "fedcba9876543210"
        read = ["all"]
        ledger = "write"
    "#;

    #[test]
    fn a_token_stands_for_its_access() {
        let tokens = Tokens::parse(FILE).expect("valid");
        let bot = tokens.find("0123456789abcdef").expect("known");
        assert_eq!((bot.name.as_str(), bot.ledger), ("bot", LedgerAccess::Read));
        assert!(bot.readable.matches("guild1-x") && bot.readable.matches("faq") && !bot.readable.matches("guild12"));
        assert_eq!(bot.scope().writable().map(SpaceId::as_str), Some("guild1-bot"));
        let runtime = tokens.find("fedcba9876543210").expect("known");
        assert_eq!((&runtime.readable, &runtime.writable), (&Spaces::All, &Writable::Nowhere));
        for unknown in ["", "0123456789abcde", "0123456789abcdeg", "bot"] {
            assert!(tokens.find(unknown).is_none(), "{unknown}");
        }
        assert!(!format!("{tokens:?}").contains("0123456789abcdef"));
    }

    #[test]
    fn mistakes_are_named_and_show_no_token() {
        for (file, expected) in [
            ("", "no [[token]]"),
            ("[[token]]\nname = \"a\"\ntoken = \"secret-secret-secret", "line 3"),
            ("[[token]]\nname = \"a\"\ntoken = 5", "expected a string"),
            ("[[token]]\nname = \"a\"\ntoken = \"secret\"", "at least 16 bytes"),
            ("[[token]]\nname = \"a\"\ntoken = \"secret-secret-secret\"\nscope = 1", "unknown field"),
            ("[[token]]\nname = \"a\"\ntoken = \"secret-secret-secret\"\nread = [{ under = \"\" }]", "token a"),
            ("[[token]]\nname = \"a\"\ntoken = \"secret-secret-secret\"\nledger = \"all\"", "line 4"),
        ] {
            let error = format!("{:#}", Tokens::parse(file).expect_err(file));
            assert!(
                error.contains(expected) || (expected == "expected a string" && error.contains("a string")),
                "{error}"
            );
            assert!(!error.contains("secret"), "{error}");
        }
        let twice = FILE.replace("fedcba9876543210", "0123456789abcdef");
        assert!(Tokens::parse(&twice).is_err() && Tokens::parse(&FILE.replace("runtime", "bot")).is_err());
    }

    #[test]
    fn the_filter_of_a_writer_finds_what_under_finds() {
        for path in ["a", "a-", "a-b", "a/", "a:", "é"] {
            let path = SpaceId::parse(path).expect("valid");
            let (filter, selector) = (is_under(&path), SpaceSelector::under(&path).expect("valid"));
            for space in ["a", "a-", "a-b", "a-b-c", "a/b", "a:b", "ab", "a.", "a0", "a;", "b", "A", "é", "é-x", "éx"]
            {
                let document = Document {
                    id: DocumentId::parse("x").expect("valid"),
                    collection: Collection::parse("x").expect("valid"),
                    space_id: SpaceId::parse(space).expect("valid"),
                    content: Content::parse("x").expect("valid"),
                    metadata: Metadata::default(),
                    created_at: Timestamp::MIN,
                    updated_at: None,
                    revision: Revision::FIRST,
                };
                assert_eq!(filter.matches(&Subject::from(&document)), selector.matches(space), "{path} {space}");
            }
        }
    }
}
