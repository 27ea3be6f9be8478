//! Who may do what: tokens and the scopes that they stand for.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Context as _, bail};
use memory_core::plugin::Scope;
use memory_core::{
    Actor, Collection, Document, DocumentSelection, DocumentWrite, Error, ErrorKind, Filter, Memory, MemoryPatch,
    Metadata, MetadataPatch, QueryBuilder, Result, SpaceId, SpaceQueryBuilder, SpaceSelector, Spaces,
};
use memory_runtime::TASK;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::configuration;
use crate::input;

/// What a caller may do.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// For logs.
    pub(crate) name: String,
    /// Which spaces it may read.
    pub(crate) readable: Spaces,
    /// Where it may write.
    pub(crate) writable: Writable,
    /// The space of the agent that the server offers, which alone writes there, whatever else the caller may write.
    pub(crate) reserved: Option<SpaceId>,
    /// Which collections it may use; any when `None`.
    pub(crate) collections: Option<Vec<Collection>>,
    /// What it may do to the ledger.
    pub(crate) ledger: LedgerAccess,
    /// Whether it may erase where it may write, and know that something was erased.
    pub(crate) erases: bool,
}

/// What a call wants with a memory that was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// To read or change it.
    Itself,
    /// To store one under its idempotency key.
    Key,
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
            reserved: None,
            collections: None,
            ledger: LedgerAccess::Write,
            erases: true,
        }
    }

    /// Nothing: for who asks for what holds no data.
    pub(crate) fn nothing() -> Self {
        Self {
            name: "anybody".to_owned(),
            readable: Spaces::Any(Vec::new()),
            writable: Writable::Nowhere,
            reserved: None,
            collections: Some(Vec::new()),
            ledger: LedgerAccess::Read,
            erases: false,
        }
    }

    /// The scope of the memory plugin.
    pub(crate) fn scope(&self) -> Scope {
        let scope = Scope::new(self.readable.clone()).with_collections(self.collections.iter().flatten().cloned());
        let scope = self.reserved.iter().cloned().fold(scope, Scope::with_unwritable);
        let scope = self.actor().into_iter().fold(scope, Scope::with_actor);
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

    /// Confines a listing of spaces to what may be read.
    pub(crate) fn confine_listing(&self, query: SpaceQueryBuilder) -> SpaceQueryBuilder {
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

    /// `Unauthorized` unless this space may be written by the caller itself.
    pub(crate) fn check_write(&self, space: &SpaceId) -> Result<()> {
        self.check_reach(space)?;
        match &self.reserved {
            Some(reserved) if SpaceSelector::under(reserved)?.matches(space.as_str()) => {
                Err(unauthorized("this space belongs to the agent of this server, which alone writes there"))
            }
            _ => Ok(()),
        }
    }

    /// `Unauthorized` unless this space may be written by the caller, or by the agent on its behalf.
    pub(crate) fn check_reach(&self, space: &SpaceId) -> Result<()> {
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

    /// `Unauthorized` unless it may erase.
    pub(crate) fn check_erasure(&self) -> Result<()> {
        if self.erases { Ok(()) } else { Err(unauthorized("nothing may be erased")) }
    }

    /// `Unauthorized` unless it may know the rules by which records are kept, which name spaces.
    pub(crate) fn check_retention(&self) -> Result<()> {
        self.check_erasure()?;
        if self.readable == Spaces::All { Ok(()) } else { Err(unauthorized("the rules of all spaces may not be read")) }
    }

    /// `Unauthorized` unless it may erase everything, as rules by which records are kept may do.
    pub(crate) fn check_retention_write(&self) -> Result<()> {
        self.check_retention()?;
        self.check_ledger_write()?;
        if self.writable == Writable::Everywhere && self.reserved.is_none() && self.collections.is_none() {
            return Ok(());
        }
        Err(unauthorized("the rules of all spaces may not be changed"))
    }

    /// `Unauthorized` unless it may choose the model of all vectors, as who may write everything does.
    pub(crate) fn check_vector_model_write(&self) -> Result<()> {
        self.check_ledger_write()?;
        if self.writable == Writable::Everywhere && self.reserved.is_none() && self.collections.is_none() {
            return Ok(());
        }
        Err(unauthorized("the embedding model may not be changed"))
    }

    /// What is told of a failed call; to callers who may not erase, that of [`without_erasure`].
    pub(crate) fn told(&self, error: Error, wanted: Wanted) -> Error {
        if self.erases { error } else { without_erasure(error, wanted) }
    }

    /// `Unauthorized` unless these metadata may be stored: see [`check_task`].
    pub(crate) fn check_metadata(&self, metadata: &Metadata) -> Result<()> {
        match self.writable {
            Writable::Everywhere => Ok(()),
            Writable::Nowhere | Writable::Under(_) => check_task(metadata),
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

    /// Who it is in the history of what it writes; nobody, where its name is no name of an actor.
    pub(crate) fn actor(&self) -> Option<Actor> {
        Actor::parse(&self.name).ok()
    }

    /// Puts its name to a removal.
    pub(crate) fn sign(&self, selection: DocumentSelection) -> DocumentSelection {
        match self.actor() {
            Some(actor) => selection.by(actor),
            None => selection,
        }
    }

    /// Confines a put to where it may write, and puts its name to it.
    pub(crate) fn confine_write(&self, mut write: DocumentWrite) -> Result<DocumentWrite> {
        self.check_write(&write.space_id)?;
        write.actor = self.actor();
        let write = match &self.writable {
            Writable::Under(path) => write.within(SpaceSelector::under(path)?)?,
            Writable::Nowhere | Writable::Everywhere => write,
        };
        match &self.reserved {
            Some(reserved) => write.outside(SpaceSelector::under(reserved)?),
            None => Ok(write),
        }
    }

    /// The condition that records may be written; `None` when all may.
    pub(crate) fn write_filter(&self) -> Result<Option<Filter>> {
        let writable = match &self.writable {
            Writable::Nowhere => return Err(unauthorized("nothing may be written")),
            Writable::Under(path) => Some(Filter::under(path)),
            Writable::Everywhere => None,
        };
        let reserved = self.reserved.as_ref().map(|reserved| Filter::under(reserved).negate());
        Ok(writable.into_iter().chain(reserved).reduce(Filter::and))
    }

    /// Confines a query with this condition to where the caller may write.
    pub(crate) fn confine_to_writable<K: memory_core::Kind>(
        &self,
        query: QueryBuilder<K>,
        condition: Option<Filter>,
    ) -> Result<QueryBuilder<K>> {
        let condition = condition.into_iter().chain(self.write_filter()?).reduce(Filter::and);
        Ok(condition.into_iter().fold(query, QueryBuilder::filter))
    }

    /// Leaves what lies in and below the space of an agent to that agent.
    pub(crate) fn reserve(&mut self, space: &SpaceId) {
        self.reserved = Some(space.clone());
    }
}

/// What is told of a failed call to who may not know that something was erased: it is not there, and its key belongs to another memory.
pub(crate) fn without_erasure(error: Error, wanted: Wanted) -> Error {
    if error.kind() != ErrorKind::Erased {
        return error;
    }
    let told = match wanted {
        Wanted::Itself => Error::not_found(),
        // The words of a conflict with a memory that is there.
        Wanted::Key => Error::conflict("the idempotency key belongs to a memory with another trigger or space"),
    };
    told.with_outcome(error.outcome())
}

/// `Unauthorized` when metadata have the member that tells a runtime what to work on: with it, a caller who is confined to some
/// spaces could have a recovery read and write others.
pub(crate) fn check_task(metadata: &Metadata) -> Result<()> {
    if metadata.to_object().contains_key(TASK) {
        return Err(unauthorized("the member task of the metadata belongs to the runtime of tasks"));
    }
    Ok(())
}

/// [`check_task`] of what a patch changes, and of what it would write.
pub(crate) fn check_change(memory: &Memory, patch: &MemoryPatch) -> Result<()> {
    check_task(&memory.metadata)?;
    match &patch.metadata {
        MetadataPatch::Keep => Ok(()),
        MetadataPatch::Replace(metadata) | MetadataPatch::Merge(metadata) => check_task(metadata),
    }
}

fn unauthorized(message: &str) -> Error {
    Error::new(ErrorKind::Unauthorized, message)
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

/// What whoever has the machine has to show, where the server is for one program of several.
pub(crate) struct Secret([u8; 32]);

impl Secret {
    /// Refuses one that could be guessed.
    pub(crate) fn new(token: &str) -> anyhow::Result<Self> {
        if token.len() < MIN_TOKEN {
            bail!("a token has at least {MIN_TOKEN} bytes");
        }
        Ok(Self(Sha256::digest(token).into()))
    }

    /// Takes the same time for every token that is another.
    pub(crate) fn is(&self, token: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(token).into();
        digest.ct_eq(&self.0).into()
    }

    /// Whether its digest is the one that is looked for.
    pub(crate) fn has_digest(&self, is_wanted: impl Fn(&[u8; 32]) -> bool) -> bool {
        is_wanted(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Tokens {
    /// Reads a file. Errors name the line and never show it, since it may hold a token.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        Self::parse(&configuration::read(path)?).with_context(|| input::name(path))
    }

    /// The names of all of them, of which no two are equal.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|token| token.access.name.as_str())
    }

    /// Reads the text of such a file.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let file: File = configuration::parse(text)?;
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

    /// Leaves what lies in and below the space of an agent to that agent.
    pub(crate) fn reserve(&mut self, space: &SpaceId) {
        self.0.iter_mut().for_each(|token| token.access.reserve(space));
    }

    /// What a token stands for. Takes the same time for every token that is none.
    pub(crate) fn find(&self, token: &str) -> Option<&Access> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        self.find_by_digest(|known| known.ct_eq(&digest).into())
    }

    /// What the token stands for whose digest is the one that is looked for.
    pub(crate) fn find_by_digest(&self, is_wanted: impl Fn(&[u8; 32]) -> bool) -> Option<&Access> {
        let found = self.0.iter().filter(|known| is_wanted(&known.digest));
        // All are compared before one is taken.
        found.collect::<Vec<_>>().first().map(|token| &token.access)
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
    #[serde(default)]
    erase: bool,
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
            reserved: None,
            collections: Some(collections),
            ledger: self.ledger,
            erases: self.erase,
        };
        Ok(Token { digest: Sha256::digest(&self.token).into(), access })
    }
}

#[cfg(test)]
mod tests {
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
        erase = true
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
        assert_eq!((bot.check_erasure().is_ok(), runtime.check_erasure().is_ok()), (false, true));
        assert_eq!((bot.check_retention().is_ok(), runtime.check_retention().is_ok()), (false, true));
        assert!(runtime.check_retention_write().is_err() && Access::unlimited().check_retention_write().is_ok());
        let told = |access: &Access, wanted| access.told(Error::erased(), wanted).kind();
        assert_eq!((told(bot, Wanted::Itself), told(bot, Wanted::Key)), (ErrorKind::NotFound, ErrorKind::Conflict));
        assert_eq!((told(runtime, Wanted::Itself), told(runtime, Wanted::Key)), (ErrorKind::Erased, ErrorKind::Erased));
        assert_eq!(bot.told(Error::corrupt("x"), Wanted::Itself).kind(), ErrorKind::Corrupt);
        for unknown in ["", "0123456789abcde", "0123456789abcdeg", "bot"] {
            assert!(tokens.find(unknown).is_none(), "{unknown}");
        }
        assert!(!format!("{tokens:?}").contains("0123456789abcdef"));
    }

    #[test]
    fn mistakes_are_named_and_show_no_token() {
        let token = |rest: &str| format!("[[token]]\nname = \"a\"\ntoken = {rest}");
        let more = |rest: &str| token(&format!("\"secret-secret-secret\"\n{rest}"));
        for (file, expected) in [
            (String::new(), "there is no [[token]] in it"),
            (token("\"secret-secret-secret"), "line 3: "),
            (token("5"), "line 3: expected a string"),
            (token("\"secret\""), "token a: a token has at least 16 bytes"),
            (more("scope = 1"), "line 4: an unknown name, expected one of `name`, `token`"),
            (more("read = [{ under = \"\" }]"), "token a: "),
            (more("ledger = \"all\""), "line 4: an unknown name, expected `read` or `write`"),
            // The secret stands where a name belongs.
            ("secret-secret-secret".to_owned(), "line 1: "),
            ("[secret-secret-secret]".to_owned(), "line 1: an unknown name, expected `token`"),
            (more("secret-secret-secret = 1"), "line 4: an unknown name, expected one of `name`"),
            (more("\"secret, expected secret\" = 1"), "line 4: an unknown name, expected one of `name`"),
            (more("secret = 1\nsecret = 2"), "line 5: "),
            (more("secret-secret-secret"), "line 4: "),
            (more("read = [\"secret, expected secret\"]"), "line 4: an unknown name, expected one of `all`"),
            (more("read = [{ \"secret\" = \"secret\" }]"), "line 4: an unknown name, expected one of `all`"),
            (more("ledger = \"secret, expected secret\""), "line 4: an unknown name, expected `read` or `write`"),
            (more("collections = \"secret, expected secret\""), "line 4: expected a sequence"),
        ] {
            let error = format!("{:#}", Tokens::parse(&file).expect_err(&file));
            assert!(error.starts_with(expected), "{file}: {error}");
            assert!(!error.contains("secret"), "{file}: {error}");
        }
        let twice = FILE.replace("fedcba9876543210", "0123456789abcdef");
        assert!(Tokens::parse(&twice).is_err() && Tokens::parse(&FILE.replace("runtime", "bot")).is_err());
    }
}
