//! What can be read from an engine's URL without connecting.

use std::path::{self, PathBuf};

use memory_core::{Address, Error, Result};

use super::kind::{Engine, KINDS, Kind};

/// A parsed engine URL. It says what the URL alone tells; the engine need not be compiled in.
#[derive(Clone, Copy)]
pub struct EngineUrl<'u> {
    kind: &'static Kind,
    url: &'u str,
}

impl<'u> EngineUrl<'u> {
    /// Finds the engine by the scheme. Fails with `InvalidInput` if no engine has it.
    pub fn parse(url: &'u str) -> Result<Self> {
        let scheme = url.split_once(':').map(|(scheme, _)| scheme);
        match KINDS.iter().find(|kind| kind.schemes.iter().any(|known| Some(*known) == scheme)) {
            Some(kind) => Ok(Self { kind, url }),
            // The message quotes nothing, since what looks like a scheme may be part of a password.
            None => {
                let known: Vec<_> =
                    KINDS.iter().flat_map(|kind| kind.schemes).map(|known| format!("{known}://")).collect();
                Err(Error::invalid(format!("a database URL must begin with one of {}", known.join(", "))))
            }
        }
    }

    /// The name of the engine, as [`Health`](memory_core::Health) has it.
    pub fn engine_name(&self) -> &'static str {
        self.kind.name
    }

    /// Whether the engine keeps a history of memories and documents.
    pub fn keeps_history(&self) -> bool {
        self.kind.keeps_history
    }

    /// Whether the URL names a file of this machine, so that there is no server and no password.
    pub fn is_file(&self) -> bool {
        self.kind.is_file
    }

    /// The location of the data, to show to people, without credentials and parameters.
    pub fn location(&self) -> String {
        let address = self.rest().split('?').next().unwrap_or_default();
        let decode = |text: &str| Address::decode(text).unwrap_or_else(|_| text.to_owned());
        if self.kind.is_file {
            if address == ":memory:" {
                return "the memory of this process".to_owned();
            }
            let file = PathBuf::from(decode(address));
            return path::absolute(&file).unwrap_or(file).display().to_string();
        }
        let (_, server) = address.rsplit_once('@').unwrap_or(("", address));
        let host = if server.is_empty() || server.starts_with('/') { "localhost" } else { "" };
        format!("{} at {host}{}", self.kind.title, decode(server))
    }

    /// Returns a URL with which a client connects only to the one server that it names, so that a proxy can stand between them.
    ///
    /// `None` if no proxy can: for files, sockets, several servers, and TLS, which checks the name of the host.
    pub fn to_one_host(&self) -> Option<String> {
        let (address, parameters) = self.rest().split_once('?').unwrap_or((self.rest(), ""));
        let authority = address.split('/').next().unwrap_or_default();
        let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let has_tls = self.scheme().ends_with("rediss")
            || self.scheme().ends_with("+srv")
            || parameters.contains("ssl")
            || parameters.contains("tls");
        if self.kind.is_file || has_tls || host.is_empty() || host.contains([',', '%']) {
            return None;
        }
        match self.kind.one_host {
            Some(parameter) if !parameters.contains(parameter) => {
                let sign = if self.url.contains('?') { '&' } else { '?' };
                Some(format!("{}{sign}{parameter}", self.url))
            }
            _ => Some(self.url.to_owned()),
        }
    }

    /// The engine with the settings of the URL.
    pub(super) fn engine(&self) -> Result<Box<dyn Engine>> {
        self.kind.engine(self.url)
    }

    fn scheme(&self) -> &'u str {
        self.url.split(':').next().unwrap_or_default()
    }

    /// The part after the scheme and its slashes.
    fn rest(&self) -> &'u str {
        let rest = self.url.split_once(':').map_or("", |(_, rest)| rest);
        rest.strip_prefix("//").unwrap_or(rest)
    }
}

impl std::fmt::Debug for EngineUrl<'_> {
    /// Leaves out the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineUrl").field("engine", &self.kind.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> EngineUrl<'_> {
        EngineUrl::parse(url).expect(url)
    }

    #[test]
    fn a_location_holds_no_credentials() {
        for (url, expected) in [
            ("sqlite:///var/a%20b.db?readers=2", "/var/a b.db"),
            ("sqlite::memory:", "the memory of this process"),
            ("postgres://app:p%40ss@db1,db2:5433/agents?namespace=n", "PostgreSQL at db1,db2:5433/agents"),
            ("postgresql://app@%2Frun%2Fpg/agents", "PostgreSQL at /run/pg/agents"),
            ("postgres://app:1/2@host/agents", "PostgreSQL at host/agents"),
            ("postgres:///agents", "PostgreSQL at localhost/agents"),
            ("postgres://", "PostgreSQL at localhost"),
            ("mongodb://app:secret@db1,db2:27018/agents?tls=true", "MongoDB at db1,db2:27018/agents"),
            ("rediss://app:p%40ss@db:6380/2?namespace=n", "Redis at db:6380/2"),
            ("redis+cluster://:p@a,b", "Redis at a,b"),
        ] {
            assert_eq!(parse(url).location(), expected);
        }
    }

    #[test]
    fn a_proxy_stands_before_one_plain_host() {
        for url in ["postgres://app:p%40ss@db/agents", "postgres://db:5433/agents?namespace=n", "redis://db"] {
            assert_eq!(parse(url).to_one_host().as_deref(), Some(url));
        }
        for (url, expected) in [
            ("mongodb://db", "mongodb://db?directConnection=true"),
            ("mongodb://db/a?replicaSet=r", "mongodb://db/a?replicaSet=r&directConnection=true"),
            ("mongodb://db/?directConnection=true", "mongodb://db/?directConnection=true"),
        ] {
            assert_eq!(parse(url).to_one_host().as_deref(), Some(expected));
        }
        for url in [
            "postgres://db1,db2/agents",
            "postgres://app@%2Frun%2Fpg/agents",
            "postgres:///agents",
            "postgres://db/agents?sslmode=require",
            "rediss://db",
            "mongodb+srv://db",
            "sqlite://data/memory.db",
        ] {
            assert_eq!(parse(url).to_one_host(), None, "{url}");
        }
    }
}
