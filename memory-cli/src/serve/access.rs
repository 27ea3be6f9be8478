//! Access control: tokens and the rights of their callers.

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

/// The rights of a caller.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// The name of the caller, for logs.
    pub(crate) name: String,
    /// The spaces that it may read.
    pub(crate) readable: Spaces,
    /// The spaces that it may write.
    pub(crate) writable: Writable,
    /// The space of the served agent. Only the agent writes there, even if it lies in the caller's writable spaces.
    pub(crate) reserved: Option<SpaceId>,
    /// The collections that it may use; all if `None`.
    pub(crate) collections: Option<Vec<Collection>>,
    /// Its rights on the ledger.
    pub(crate) ledger: LedgerAccess,
    /// Whether it may erase in its writable spaces, and learn of erasures.
    pub(crate) erases: bool,
}

/// How a call refers to a memory that was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// By its id, to read or change it.
    Itself,
    /// By its idempotency key, to store a memory.
    Key,
}

/// The spaces that a caller may write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Writable {
    Nowhere,
    /// This space and all below it.
    Under(SpaceId),
    Everywhere,
}

/// The rights of a caller on the ledger, within its spaces.
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
    /// All rights, for callers on the same machine.
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

    /// No rights, for requests of paths that hold no data.
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

    /// Returns the scope for the memory plugin.
    pub(crate) fn scope(&self) -> Scope {
        let scope = Scope::new(self.readable.clone()).with_collections(self.collections.iter().flatten().cloned());
        let scope = self.reserved.iter().cloned().fold(scope, Scope::with_unwritable);
        let scope = self.actor().into_iter().fold(scope, Scope::with_actor);
        match &self.writable {
            Writable::Under(space) => scope.with_writable(space.clone()),
            Writable::Nowhere | Writable::Everywhere => scope,
        }
    }

    /// Confines a query to the readable spaces.
    pub(crate) fn confine<K: memory_core::Kind>(&self, query: QueryBuilder<K>) -> QueryBuilder<K> {
        match &self.readable {
            Spaces::All => query,
            spaces => query.within(spaces.clone()),
        }
    }

    /// Confines a listing of spaces to the readable ones.
    pub(crate) fn confine_listing(&self, query: SpaceQueryBuilder) -> SpaceQueryBuilder {
        match &self.readable {
            Spaces::All => query,
            spaces => query.within(spaces.clone()),
        }
    }

    /// Whether the caller may read a memory.
    pub(crate) fn may_read(&self, memory: &Memory) -> bool {
        self.readable.matches(memory.space_id.as_str())
    }

    /// Whether the caller may read a document.
    pub(crate) fn may_read_document(&self, document: &Document) -> bool {
        self.readable.matches(document.space_id.as_str())
    }

    /// Fails with `Unauthorized` unless the caller itself may write this space.
    pub(crate) fn check_write(&self, space: &SpaceId) -> Result<()> {
        self.check_reach(space)?;
        match &self.reserved {
            Some(reserved) if SpaceSelector::under(reserved)?.matches(space.as_str()) => {
                Err(unauthorized("this space belongs to the agent of this server, which alone writes there"))
            }
            _ => Ok(()),
        }
    }

    /// Fails with `Unauthorized` unless the caller, or the agent on its behalf, may write this space.
    pub(crate) fn check_reach(&self, space: &SpaceId) -> Result<()> {
        let allowed = match &self.writable {
            Writable::Nowhere => false,
            Writable::Under(path) => SpaceSelector::under(path)?.matches(space.as_str()),
            Writable::Everywhere => true,
        };
        if allowed { Ok(()) } else { Err(unauthorized("this space may not be written")) }
    }

    /// Fails with `Unauthorized` unless the caller may write the ledger.
    pub(crate) fn check_ledger_write(&self) -> Result<()> {
        match self.ledger {
            LedgerAccess::Write => Ok(()),
            LedgerAccess::Read => Err(unauthorized("the ledger may only be read")),
        }
    }

    /// Fails with `Unauthorized` unless the caller may erase.
    pub(crate) fn check_erasure(&self) -> Result<()> {
        if self.erases { Ok(()) } else { Err(unauthorized("nothing may be erased")) }
    }

    /// Fails with `Unauthorized` unless the caller may read the retention rules, which name spaces.
    pub(crate) fn check_retention(&self) -> Result<()> {
        self.check_erasure()?;
        if self.readable == Spaces::All { Ok(()) } else { Err(unauthorized("the rules of all spaces may not be read")) }
    }

    /// Fails with `Unauthorized` unless the caller may erase everything, since retention rules can do that.
    pub(crate) fn check_retention_write(&self) -> Result<()> {
        self.check_retention()?;
        self.check_ledger_write()?;
        if self.writable == Writable::Everywhere && self.reserved.is_none() && self.collections.is_none() {
            return Ok(());
        }
        Err(unauthorized("the rules of all spaces may not be changed"))
    }

    /// Fails with `Unauthorized` unless the caller may set the model of all vectors, that is, may write everything.
    pub(crate) fn check_vector_model_write(&self) -> Result<()> {
        self.check_ledger_write()?;
        if self.writable == Writable::Everywhere && self.reserved.is_none() && self.collections.is_none() {
            return Ok(());
        }
        Err(unauthorized("the embedding model may not be changed"))
    }

    /// The error to return to the caller; for callers who may not erase, that of [`without_erasure`].
    pub(crate) fn told(&self, error: Error, wanted: Wanted) -> Error {
        if self.erases { error } else { without_erasure(error, wanted) }
    }

    /// Fails with `Unauthorized` unless the caller may store these metadata; see [`check_task`].
    pub(crate) fn check_metadata(&self, metadata: &Metadata) -> Result<()> {
        match self.writable {
            Writable::Everywhere => Ok(()),
            Writable::Nowhere | Writable::Under(_) => check_task(metadata),
        }
    }

    /// Fails with `Unauthorized` unless the caller may use this collection.
    pub(crate) fn check_collection(&self, collection: &Collection) -> Result<()> {
        match &self.collections {
            Some(collections) if !collections.contains(collection) => {
                Err(unauthorized("this collection may not be used"))
            }
            _ => Ok(()),
        }
    }

    /// The actor that the history names for its writes; `None` if its name is not valid for an actor.
    pub(crate) fn actor(&self) -> Option<Actor> {
        Actor::parse(&self.name).ok()
    }

    /// Sets the actor of a removal.
    pub(crate) fn sign(&self, selection: DocumentSelection) -> DocumentSelection {
        match self.actor() {
            Some(actor) => selection.by(actor),
            None => selection,
        }
    }

    /// Confines a put to the writable spaces, and sets its actor.
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

    /// The filter for the writable spaces; `None` if all are writable.
    pub(crate) fn write_filter(&self) -> Result<Option<Filter>> {
        let writable = match &self.writable {
            Writable::Nowhere => return Err(unauthorized("nothing may be written")),
            Writable::Under(path) => Some(Filter::under(path)),
            Writable::Everywhere => None,
        };
        let reserved = self.reserved.as_ref().map(|reserved| Filter::under(reserved).negate());
        Ok(writable.into_iter().chain(reserved).reduce(Filter::and))
    }

    /// Confines a query with this condition to the writable spaces.
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

/// Replaces the error `Erased` for callers who may not learn of erasures: the memory does not exist, and its key belongs to another one.
pub(crate) fn without_erasure(error: Error, wanted: Wanted) -> Error {
    if error.kind() != ErrorKind::Erased {
        return error;
    }
    let told = match wanted {
        Wanted::Itself => Error::not_found(),
        // The same words as those of a conflict with an existing memory.
        Wanted::Key => Error::conflict("the idempotency key belongs to a memory with another trigger or space"),
    };
    told.with_outcome(error.outcome())
}

/// Fails with `Unauthorized` if metadata have the member that holds a runtime's claim. With it, a caller that is confined to some spaces
/// could make a recovery read and write others.
pub(crate) fn check_task(metadata: &Metadata) -> Result<()> {
    if metadata.to_object().contains_key(TASK) {
        return Err(unauthorized("the member task of the metadata belongs to the runtime of tasks"));
    }
    Ok(())
}

/// Applies [`check_task`] to the memory that a patch changes, and to the metadata that it would write.
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

/// The shortest token, in bytes, so that it can't be guessed over a network.
const MIN_TOKEN: usize = 16;

/// The hash of the token that callers on the same machine must show if the server is for a single program.
pub(crate) struct Secret([u8; 32]);

impl Secret {
    /// Hashes a token. Fails if it is so short that it could be guessed.
    pub(crate) fn new(token: &str) -> anyhow::Result<Self> {
        if token.len() < MIN_TOKEN {
            bail!("a token has at least {MIN_TOKEN} bytes");
        }
        Ok(Self(Sha256::digest(token).into()))
    }

    /// Compares a token, in the same time for every wrong one.
    pub(crate) fn is(&self, token: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(token).into();
        digest.ct_eq(&self.0).into()
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        self.0
    }

    /// Whether the digest is the wanted one.
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

    /// The names of all tokens, which are unique.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|token| token.access.name.as_str())
    }

    pub(crate) fn digests(&self) -> impl Iterator<Item = [u8; 32]> {
        self.0.iter().map(|token| token.digest)
    }

    /// Parses the text of a file of tokens.
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

    /// Returns the rights of a token, in the same time for every wrong one.
    pub(crate) fn find(&self, token: &str) -> Option<&Access> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        self.find_by_digest(|known| known.ct_eq(&digest).into())
    }

    /// Returns the rights of the token with the wanted digest.
    pub(crate) fn find_by_digest(&self, is_wanted: impl Fn(&[u8; 32]) -> bool) -> Option<&Access> {
        let found = self.0.iter().filter(|known| is_wanted(&known.digest));
        // All tokens are compared before one is taken, so that the time does not depend on the position.
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
