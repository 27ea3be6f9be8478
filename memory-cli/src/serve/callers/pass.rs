//! The pass that a browser keeps instead of a token.

use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::key::ConsoleKey;
use super::sender::{is_for_people, is_of_own_site};

/// The prefix of the cookie's name. The rest is derived from host and port, since all servers of a host share cookies.
const COOKIE: &str = "agent_memory_console_";
/// Browsers take a cookie with a name that begins so only over TLS, and from this very host.
const OF_HOST: &str = "__Host-";
/// The header that says how the client reached the proxy.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Replaces a token on the pages of the console. It is a hash of the token's digest, keyed with the key of the console, so a copy of it is not a
/// token: REST and MCP refuse it. It is valid at all servers that have the same tokens, until one of these is changed or withdrawn.
pub(crate) struct Pass([u8; 32]);

impl Pass {
    /// Makes the pass of a token.
    pub(crate) fn of(token: &str, key: &ConsoleKey) -> Self {
        Self::of_digest(&Sha256::digest(token).into(), key)
    }

    /// Returns the passes in the cookies of a request; other servers of the host may have set some, too. None for requests of other
    /// servers' pages, which could learn from the response time what exists.
    pub(crate) fn all_in(headers: &HeaderMap) -> impl Iterator<Item = Self> {
        let is_asked = is_of_own_site(headers) || is_for_people(headers);
        let cookies = headers.get_all(header::COOKIE).iter().filter(move |_| is_asked);
        let pairs = cookies.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
        let pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
        let name = name(headers);
        let of_host = format!("{OF_HOST}{name}");
        let (strict, plain): (Vec<_>, Vec<_>) =
            pairs.filter(|(own, _)| *own == name || *own == of_host).partition(|(own, _)| *own == of_host);
        // Other servers of the host can set the cookie without the prefix.
        let own = if strict.is_empty() && !is_secure(headers) { plain } else { strict };
        own.into_iter().filter_map(|(_, value)| Self::parse(value))
    }

    /// Whether it is the pass of the token with this digest, in the same time for every wrong one.
    pub(crate) fn stands_for(&self, digest: &[u8; 32], key: &ConsoleKey) -> bool {
        self.0.ct_eq(&Self::of_digest(digest, key).0).into()
    }

    /// Returns the session cookie for a client with these headers. If the client uses TLS, the cookie is sent only over TLS.
    pub(crate) fn cookie(&self, headers: &HeaderMap) -> String {
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        cookie(&name(headers), &hex, "", is_secure(headers))
    }

    /// Returns cookies that expire the pass at once, for TLS and without, since a host may be reached by both.
    pub(crate) fn no_cookies(headers: &HeaderMap) -> [String; 2] {
        [true, false].map(|is_secure| cookie(&name(headers), "", "; Max-Age=0", is_secure))
    }

    fn of_digest(digest: &[u8; 32], key: &ConsoleKey) -> Self {
        Self(key.hash().chain_update(digest).finalize().into())
    }

    fn parse(hex: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if hex.len() != 2 * bytes.len() || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * place..2 * place + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }
}

/// Hides the pass, since it opens pages.
impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pass")
    }
}

/// Whether the browser has reached the server over TLS, by its origin or a proxy's header.
fn is_secure(headers: &HeaderMap) -> bool {
    let begins = |name: &HeaderName, begin: &str| {
        headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| value.starts_with(begin))
    };
    begins(&header::ORIGIN, "https://") || begins(&FORWARDED_PROTO, "https")
}

fn name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).map_or(&b""[..], HeaderValue::as_bytes).to_ascii_lowercase();
    let digest: [u8; 32] = Sha256::digest(host).into();
    digest.iter().take(4).fold(COOKIE.to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

fn cookie(name: &str, value: &str, age: &str, is_secure: bool) -> String {
    let (of_host, secure) = if is_secure { (OF_HOST, "; Secure") } else { ("", "") };
    format!("{of_host}{name}={value}; HttpOnly; SameSite=Strict; Path=/{age}{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::callers::door::Door;
    use crate::serve::callers::tokens::Secret;

    #[test]
    fn a_pass_stands_for_its_token_alone() {
        let (token, other) = ("0123456789abcdef", "0123456789abcdeg");
        let digest = |token: &str| Sha256::digest(token).into();
        let key = ConsoleKey::of(&Door::Secret(Secret::new(token).expect("long enough")));
        let pass = Pass::of(token, &key);
        let [site, dest] = ["sec-fetch-site", "sec-fetch-dest"].map(HeaderName::from_static);
        let headers = |host: &str, cookie: &str, more: &[(HeaderName, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in
                [(header::HOST, host), (header::COOKIE, cookie)].into_iter().chain(more.iter().cloned())
            {
                headers.insert(name, value.parse().expect("a value"));
            }
            headers
        };
        let here = headers("localhost:1", "a=b", &[]);
        let over_tls = headers("localhost:1", "a=b", &[(FORWARDED_PROTO, "https")]);
        let (set, secure) = (pass.cookie(&here), pass.cookie(&over_tls));
        assert!(!set.contains(token) && !set.contains("Secure") && set.contains("; HttpOnly; SameSite=Strict; Path=/"));
        assert!(secure.starts_with("__Host-agent_memory_console_") && secure.ends_with("; Secure"), "{secure}");
        let count = |headers: HeaderMap| {
            Pass::all_in(&headers)
                .map(|pass| (pass.stands_for(&digest(token), &key), pass.stands_for(&digest(other), &key)))
                .collect::<Vec<_>>()
        };
        for set in [set, secure] {
            let value = set.split(';').next().expect("a first part");
            let name = value.split_once('=').expect("a name").0;
            let cookies = format!("a=b; {name}=0; {value}; c=d");
            let own = [(site.clone(), "same-origin")];
            assert_eq!(count(headers("LOCALHOST:1", &cookies, &own)), [(true, false)]);
            assert_eq!(count(headers("localhost:2", &cookies, &own)), []);
            // A page of another server of the host may lead here, and load nothing from here.
            assert_eq!(
                count(headers("localhost:1", &cookies, &[(site.clone(), "same-site"), (dest.clone(), "image")])),
                []
            );
            let led = [(site.clone(), "same-site"), (dest.clone(), "document")];
            assert_eq!(count(headers("localhost:1", &cookies, &led)), [(true, false)]);
            // Beside one that this host alone can have set, others count for nothing.
            let (other, counted) = match name.strip_prefix(OF_HOST) {
                Some(plain) => (plain.to_owned(), vec![(true, false)]),
                None => (format!("{OF_HOST}{name}"), vec![]),
            };
            assert_eq!(count(headers("localhost:1", &format!("{other}=0; {value}"), &own)), counted, "{other}");
            // Nor does the plain one over TLS.
            let tls = [(FORWARDED_PROTO, "https")];
            let kept = if name.starts_with(OF_HOST) { vec![(true, false)] } else { vec![] };
            assert_eq!(count(headers("localhost:1", value, &tls)), kept, "{value}");
            for wrong in ["", &value[..value.len() - 1], &format!("{value}0"), &format!("{name}={}", "g".repeat(64))] {
                assert_eq!(count(headers("localhost:1", wrong, &[])), [], "{wrong}");
            }
        }
    }
}
