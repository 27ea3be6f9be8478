//! Maps Redis' errors to those of the contract.

use std::error::Error as _;
use std::fmt;

use memory_core::ErrorKind::{self, Corrupt, InvalidInput, Unauthorized, Unavailable, Unexpected};
use memory_core::{Error, Outcome};
use redis::{ErrorKind as Kind, Pipeline, RedisError, ServerError, Value};

use crate::statements::is_write;

/// The error code of a script if the program is too old.
const NEWER: &str = "NEWER";
/// The error code of a script if the namespace is read-only.
const FENCED: &str = "FENCED";

/// Converts an error of the driver. The message never holds the server's own text, which can quote a value.
pub(crate) fn native(error: RedisError) -> Error {
    match error.code() {
        Some(NEWER) => return Error::newer_writer().with_source(Source(error)),
        Some(FENCED) => return Error::read_only().with_source(Source(error)),
        _ => {}
    }
    let (kind, message, retryable) = match error.code() {
        Some(code) => of_code(code, error.detail().unwrap_or_default()),
        None => match error.kind() {
            Kind::AuthenticationFailed => (Unauthorized, "the server refused the user or the password", false),
            Kind::InvalidClientConfig => (InvalidInput, "the settings of the connection are not valid", false),
            Kind::MasterNameNotFoundBySentinel => (Unavailable, "the sentinels know no primary of this name", true),
            Kind::UnexpectedReturnType => (Corrupt, "a stored value has an impossible type", false),
            _ if is_lost(&error) => (Unavailable, "the connection to the server failed", true),
            _ => (Unexpected, "the driver refused a command", false),
        },
    };
    let error = Error::new(kind, message).with_source(Source(error));
    if retryable { error.retryable() } else { error }
}

/// Like [`native`], for commands that may have taken effect although no answers came.
pub(crate) fn native_write(error: RedisError, commands: &Pipeline) -> Error {
    let writes = commands.cmd_iter().any(is_write);
    // A server that was never reached has done nothing.
    let is_unknown = writes && is_lost(&error) && !error.is_connection_refusal();
    let error = native(error);
    if is_unknown { error.with_outcome(Outcome::Unknown) } else { error }
}

/// Returns whether a command that writes may have written, judged by its answer. A script is not rolled back, so an
/// error in its middle may come after a write.
pub(crate) fn may_have_written(answer: &Value) -> bool {
    match answer {
        Value::ServerError(error) => is_from_within_a_script(error),
        _ => true,
    }
}

/// Returns whether the server has refused a command with one of these codes.
pub(crate) fn has_code(answers: &[Value], codes: &[&str]) -> bool {
    answers.iter().any(|answer| matches!(answer, Value::ServerError(error) if codes.contains(&error.code())))
}

/// Returns whether the same call can succeed soon: the connection was lost, the server is starting, or another one is
/// the primary now.
pub(crate) fn is_passing(error: &Error) -> bool {
    source(error).is_some_and(|source| match source.code() {
        Some(code) => {
            matches!(code, "ASK" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "MOVED" | "READONLY" | "TRYAGAIN")
        }
        None => is_lost(source) || source.kind() == Kind::MasterNameNotFoundBySentinel,
    })
}

/// Returns whether commands were refused because the namespace's slot is moving between nodes, or has just arrived.
pub(crate) fn is_moving(error: &Error) -> bool {
    source(error).is_some_and(|source| matches!(source.code(), Some("ASK" | "MOVED" | "TRYAGAIN")))
}

/// Returns whether the slot has arrived at another node, or the node was replaced: commands before this one may have
/// been executed.
pub(crate) fn has_moved(error: &Error) -> bool {
    source(error).is_some_and(|source| source.code() == Some("MOVED"))
}

/// Returns host and port of the node that has the slot or receives it, if the asked node has named it.
pub(crate) fn named_node(error: &Error) -> Option<(String, u16)> {
    redirection(source(error)?).filter(|(name, _)| !name.is_empty())
}

/// The same, for an error of the driver. The name is empty if it is that of the asked node; `?` stands for one that is not known.
pub(crate) fn redirection(error: &RedisError) -> Option<(String, u16)> {
    let (node, _) = error.redirect_node()?;
    let (name, port) = node.rsplit_once(':').filter(|(name, _)| *name != "?")?;
    Some((name.to_owned(), port.parse().ok()?))
}

/// The error of a call whose primary was replaced before the replicas had what the call has read.
pub(crate) fn replaced() -> Error {
    let message = "another server has become the primary";
    let source = Source(RedisError::from((Kind::Io, message)));
    Error::new(Unavailable, message).with_source(source).retryable()
}

/// Returns whether an error comes from the server or the driver, and not from what was read.
pub(crate) fn is_of_server(error: &Error) -> bool {
    source(error).is_some()
}

/// Returns whether the server is a replica, which accepts no writes.
pub(crate) fn is_read_only(error: &Error) -> bool {
    source(error).is_some_and(|source| source.code() == Some("READONLY"))
}

fn source(error: &Error) -> Option<&RedisError> {
    error.source()?.downcast_ref::<Source>().map(|Source(source)| source)
}

/// The driver's error without the server's text, which can quote what was sent.
struct Source(RedisError);

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.code() {
            Some(code) => write!(f, "the server answered {code}"),
            None => self.0.fmt(f),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Source {}

/// Maps an error code to kind, message, and whether a later call can succeed.
fn of_code(code: &str, detail: &str) -> (ErrorKind, &'static str, bool) {
    match code {
        "NOAUTH" | "WRONGPASS" => (Unauthorized, "the server refused the user or the password", false),
        "NOPERM" => (Unauthorized, "the user lacks a permission", false),
        "DENIED" => (Unauthorized, "the server takes no connections from here", false),
        "READONLY" => (Unavailable, "the server is a read-only replica", true),
        "UNBLOCKED" => (Unavailable, "the server is not the primary any more", true),
        "OOM" => (Unavailable, "the server is out of memory", true),
        "LOADING" => (Unavailable, "the server is loading its data", true),
        "MASTERDOWN" => (Unavailable, "the server has lost its primary", true),
        "CLUSTERDOWN" => (Unavailable, "the cluster is down", true),
        "MOVED" | "ASK" | "TRYAGAIN" => (Unavailable, "the slot of the namespace is on its way to another node", true),
        "CROSSSLOT" => (Unexpected, "the keys of the namespace are not in one slot", false),
        "BUSY" => (Unavailable, "the server is busy with a script", true),
        "MISCONF" => (Unavailable, "the server can't write to its disk", true),
        "NOREPLICAS" => (Unavailable, "the server has too few replicas to take a write", true),
        "WRONGTYPE" => (Corrupt, "a key of the namespace holds another type of value", false),
        _ if detail.contains("the script can't run this command") => {
            (Unauthorized, "the user lacks a permission", false)
        }
        _ if is_killed(detail) => (Unavailable, "the script was killed on the server", true),
        _ if detail.contains("max number of clients") => (Unavailable, "the server has no connection left", true),
        _ if detail.contains("cluster is down") => (Unavailable, "the cluster is down", true),
        _ => (Unexpected, "the server refused a command", false),
    }
}

/// Returns whether a script's command failed that may not be its first write. If the server is not ready, it refuses
/// the first one.
fn is_from_within_a_script(error: &ServerError) -> bool {
    let detail = error.details().unwrap_or_default();
    matches!(error.code(), "ERR" | "NOPERM" | "WRONGTYPE") && detail.contains("@user_script") && !is_killed(detail)
}

/// Only a script that has written nothing can be killed.
fn is_killed(detail: &str) -> bool {
    detail.contains("killed by user")
}

fn is_lost(error: &RedisError) -> bool {
    matches!(error.kind(), Kind::Io | Kind::Parse)
}
