//! Host, credentials and parameters in the connection URL of an engine.

use std::fmt;

use percent_encoding::percent_decode_str;

use crate::{Error, Result};

/// The part of an engine's URL after the scheme: `USER:PASSWORD@HOST:PORT,HOST:PORT/PATH?PARAMETERS`. For engines.
#[derive(Debug)]
pub struct Address<'u> {
    /// The user, percent-decoded; `None` if missing or empty.
    pub user: Option<String>,
    /// The password, percent-decoded; `None` if the URL has none.
    pub password: Option<Password>,
    /// The host list as written in the URL.
    hosts: &'u str,
    /// The path as written in the URL, without its leading slash.
    pub path: &'u str,
    /// The query string as written in the URL, without the `?`.
    pub parameters: &'u str,
}

/// One server: a host name, an IP address, or, with a leading slash, the folder of a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The host name, the address without brackets, or the folder.
    pub name: String,
    /// The port, or the engine's default port.
    pub port: u16,
}

/// A password; `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(***)")
    }
}

impl<'u> Address<'u> {
    /// Parses what follows `scheme://`. `InvalidInput`, whose message never quotes the URL, if a part is not valid.
    pub fn parse(rest: &'u str) -> Result<Self> {
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // An error may quote path and parameters, so neither may hold a part of the password.
        if path.contains('@') || parameters.contains('@') {
            return Err(Error::invalid("the password in the URL has a / or a ? that is not percent-encoded"));
        }
        let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match credentials.split_once(':') {
            Some((user, password)) => (user, Some(Password(Self::decode(password)?))),
            None => (credentials, None),
        };
        let user = Some(Self::decode(user)?).filter(|user| !user.is_empty());
        Ok(Self { user, password, hosts, path, parameters })
    }

    /// Returns the hosts, at least one; `localhost` where none is named. `InvalidInput` if a port is not a number.
    pub fn hosts(&self, default_port: u16) -> Result<Vec<Host>> {
        self.hosts.split(',').map(|host| Host::parse(host, default_port)).collect()
    }

    /// Decodes the percent-encoding of a URL part; `InvalidInput` if the result is not UTF-8.
    pub fn decode(part: &str) -> Result<String> {
        let decoded = percent_decode_str(part).decode_utf8();
        decoded.map(Into::into).map_err(|_| Error::invalid("a part of the URL is not UTF-8"))
    }
}

impl Host {
    fn parse(text: &str, default_port: u16) -> Result<Self> {
        // An IPv6 address has colons of its own, so it is in brackets.
        let end_of_name = text.find(']').map_or(0, |bracket| bracket + 1);
        let (name, port) = match text[end_of_name..].find(':') {
            Some(colon) => (&text[..end_of_name + colon], &text[end_of_name + colon + 1..]),
            None => (text, ""),
        };
        let port = match port {
            "" => default_port,
            port => port.parse().map_err(|_| Error::invalid("a port in the URL is not a number"))?,
        };
        let name = match Address::decode(name.trim_start_matches('[').trim_end_matches(']'))? {
            name if name.is_empty() => "localhost".to_owned(),
            name => name,
        };
        Ok(Self { name, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_names_and_ports() {
        for (hosts, expected) in [
            ("", vec![("localhost", 9)]),
            ("db", vec![("db", 9)]),
            ("a:1,b,[::1]:2,[::2]", vec![("a", 1), ("b", 9), ("::1", 2), ("::2", 9)]),
            ("%2Frun%2Fpg:7", vec![("/run/pg", 7)]),
        ] {
            let found = Address::parse(hosts).and_then(|address| address.hosts(9)).expect(hosts);
            let found: Vec<_> = found.iter().map(|host| (host.name.as_str(), host.port)).collect();
            assert_eq!(found, expected, "{hosts}");
        }
        assert!(Address::parse("h:port").and_then(|address| address.hosts(9)).is_err());
    }

    #[test]
    fn passwords_are_decoded_and_never_shown() {
        let address = Address::parse("us%40er:p%3A%2Fxyzzy@h/d%20b?a=1").expect("valid");
        assert_eq!(address.user.as_deref(), Some("us@er"));
        assert_eq!(address.password, Some(Password("p:/xyzzy".to_owned())));
        assert_eq!((address.path, address.parameters), ("d%20b", "a=1"));
        assert!(!format!("{address:?}").contains("xyzzy"));
        let address = Address::parse(":xyzzy@h").expect("valid");
        assert_eq!((&address.user, address.password.is_some()), (&None, true));
    }

    #[test]
    fn no_part_of_a_password_is_taken_for_something_else() {
        for rest in ["u:1?xyzzy@h", "u:1/xyzzy@h", "u:1/xyzzy@h/db?a=2", "%ff:xyzzy@h"] {
            let error = Address::parse(rest).expect_err(rest);
            assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
        }
    }
}
