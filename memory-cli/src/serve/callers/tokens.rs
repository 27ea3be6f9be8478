//! The tokens of callers and the rights that each stands for.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Context as _, bail};
use memory_core::{Collection, Error, Result, SpaceId, SpaceSelector, Spaces};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::input;
use crate::serve::access::{Access, LedgerAccess, Writable};
use crate::serve::configuration;

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
            bail!("a token must have at least {MIN_TOKEN} bytes");
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
            bail!("it has no [[token]]");
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
            bail!("a token must have at least {MIN_TOKEN} bytes");
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
    use memory_core::ErrorKind;

    use super::*;
    use crate::serve::access::Wanted;

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
            (String::new(), "it has no [[token]]"),
            (token("\"secret-secret-secret"), "line 3: "),
            (token("5"), "line 3: expected a string"),
            (token("\"secret\""), "token a: a token must have at least 16 bytes"),
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
