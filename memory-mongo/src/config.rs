//! How a server is reached, and the settings of the provider.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use memory_core::{Clock, DEFAULT_DEADLINE, Error, Result, SystemClock, TextIndex};
use mongodb::options::{
    Acknowledgment, ClientOptions, ConnectionString, HostInfo, ReadConcern, ReadConcernLevel, WriteConcern,
};

use crate::error::native;

/// Which servers, and the settings of the provider.
///
/// ```
/// use memory_mongo::MongoConfig;
///
/// let config = MongoConfig::from_url("mongodb://app:secret@db1,db2:27018/agents?replicaSet=rs0&deadline_ms=5000")?;
/// assert_eq!((config.namespace.as_str(), config.deadline.as_secs()), ("agents", 5));
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MongoConfig {
    /// The replica set or the routers, and how they are reached.
    pub server: Server,
    /// The database that holds everything; `agent_memory` by default.
    pub namespace: String,
    /// What text search covers; only documents by default. Once switched on for a namespace, every program that writes to
    /// it keeps the index.
    pub text_index: TextIndex,
    /// How long a call may take; 30 s by default.
    pub deadline: Duration,
    /// Where `updatedAt` comes from; the clock of the machine by default.
    pub clock: Arc<dyn Clock>,
}

/// What a URL says of the servers. Shows nowhere but for its hosts.
#[derive(Clone)]
pub struct Server(ConnectionString);

const DEFAULT_NAMESPACE: &str = "agent_memory";
/// How long a call waits for a primary: longer than an election takes, and shorter than most calls may take.
const SERVER_SELECTION: Duration = Duration::from_secs(20);
/// How many connections are open at most, to each server.
const POOL_SIZE: u32 = 100;

impl MongoConfig {
    /// Reads `mongodb://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?PARAMETERS`, also with `mongodb+srv:`.
    ///
    /// The database is the namespace. Parameters of its own are `text_index` (`documents` or `all`) and `deadline_ms`; the
    /// others are those of the driver. Any other is `InvalidInput` that names it, and so are those that ask for less than
    /// the contract promises: `w`, `journal`, `readConcernLevel` and `retryWrites` can only be what they are anyway.
    pub fn from_url(url: &str) -> Result<Self> {
        let (address, parameters) = url.split_once('?').unwrap_or((url, ""));
        let rest = ["mongodb://", "mongodb+srv://"].iter().find_map(|scheme| address.strip_prefix(scheme));
        let rest = rest.ok_or_else(|| Error::invalid("a MongoDB URL begins with mongodb:// or mongodb+srv://"))?;
        // What follows would be quoted, and is a part of the password then.
        if rest.split_once('/').is_some_and(|(_, database)| database.contains('@')) || parameters.contains('@') {
            return Err(Error::invalid("the password in the MongoDB URL has a / or a ? that is not percent-encoded"));
        }
        let mut text_index = TextIndex::default();
        let mut deadline = DEFAULT_DEADLINE;
        let mut others = Vec::new();
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                ("text_index", "documents") => text_index = TextIndex::Documents,
                ("text_index", "all") => text_index = TextIndex::All,
                ("deadline_ms", millis) if millis.parse::<u64>().is_ok() => {
                    deadline = Duration::from_millis(millis.parse().unwrap_or_default());
                }
                (name @ ("text_index" | "deadline_ms"), _) => return Err(wrong(name)),
                _ => others.push(parameter),
            }
        }
        let separator = if rest.contains('/') { "?" } else { "/?" };
        let server = ConnectionString::parse(format!("{address}{separator}{}", others.join("&")));
        let server = server.map_err(|_| refusal(&others))?;
        check_promises(&server)?;
        let namespace = server.default_database.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        check_namespace(&namespace)?;
        Ok(Self { server: Server(server), namespace, text_index, deadline, clock: Arc::new(SystemClock) })
    }

    /// What the driver is opened with. Asks the name service where the URL wants that.
    pub(crate) async fn client_options(&self) -> Result<ClientOptions> {
        let mut options = ClientOptions::parse(self.server.0.clone()).await.map_err(native)?;
        options.app_name.get_or_insert_with(|| "agent-memory".to_owned());
        options.server_selection_timeout.get_or_insert(SERVER_SELECTION);
        options.max_pool_size.get_or_insert(POOL_SIZE);
        options.write_concern = Some(WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build());
        options.read_concern = Some(ReadConcern::majority());
        options.retry_writes = Some(true);
        Ok(options)
    }
}

impl TryFrom<&str> for MongoConfig {
    type Error = Error;

    fn try_from(url: &str) -> Result<Self> {
        Self::from_url(url)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.host_info {
            HostInfo::HostIdentifiers(hosts) => f.debug_tuple("Server").field(hosts).finish(),
            HostInfo::DnsRecord(name) => f.debug_tuple("Server").field(name).finish(),
            _ => f.write_str("Server"),
        }
    }
}

/// The namespace is the name of a database.
/// <https://www.mongodb.com/docs/manual/reference/limits/#naming-restrictions>
pub(crate) fn check_namespace(name: &str) -> Result<()> {
    let is_odd = |character: char| character.is_control() || "/\\. \"$*<>:|?".contains(character);
    if name.is_empty() || name.len() > 63 || name.contains(is_odd) {
        return Err(Error::invalid(
            "a namespace is the name of a database: 1 to 63 bytes without white space and any of /\\.\"$*<>:|?",
        ));
    }
    if ["admin", "config", "local"].contains(&name) {
        return Err(Error::invalid(
            "the namespace is a database of the server's own: the database in the URL is where the memory goes, and \
             authSource says where the user is",
        ));
    }
    Ok(())
}

/// Refuses settings that would break a promise of the contract.
fn check_promises(server: &ConnectionString) -> Result<()> {
    if let Some(concern) = &server.write_concern {
        if !matches!(concern.w, None | Some(Acknowledgment::Majority)) {
            return Err(wrong("w"));
        }
        if concern.journal == Some(false) {
            return Err(wrong("journal"));
        }
        if concern.w_timeout.is_some() {
            return Err(wrong("wTimeoutMS"));
        }
    }
    if server.read_concern.as_ref().is_some_and(|concern| concern.level != ReadConcernLevel::Majority) {
        return Err(wrong("readConcernLevel"));
    }
    if server.retry_writes == Some(false) { Err(wrong("retryWrites")) } else { Ok(()) }
}

/// Why the driver refuses a URL. Its own message can quote a part of the password.
fn refusal(parameters: &[&str]) -> Error {
    let is_refused = |parameter: &&&str| ConnectionString::parse(format!("mongodb://host/?{parameter}")).is_err();
    match parameters.iter().find(is_refused) {
        Some(parameter) => wrong(parameter.split_once('=').map_or(parameter, |(name, _)| name)),
        None => Error::invalid("the MongoDB URL has no valid hosts, or parts that need percent-encoding"),
    }
}

fn wrong(name: &str) -> Error {
    Error::invalid(format!("the URL parameter {name} is unknown or has a value that is not valid here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_servers_and_a_namespace() {
        for (url, hosts, namespace) in [
            ("mongodb://db", "db", "agent_memory"),
            ("mongodb://db:99/", "99", "agent_memory"),
            ("mongodb://db?text_index=all", "db", "agent_memory"),
            ("mongodb://a:1,b/agents?replicaSet=rs0&retryWrites=true&w=majority&journal=true", "a,b", "agents"),
            ("mongodb+srv://cluster.example.com/agents", "cluster.example.com", "agents"),
        ] {
            let config = MongoConfig::from_url(url).expect(url);
            let shown = format!("{:?}", config.server);
            assert!(hosts.split(',').all(|host| shown.contains(host)), "{shown}");
            assert_eq!(config.namespace, namespace);
        }
    }

    #[test]
    fn unknown_and_weakening_parameters_are_refused_by_name() {
        for (url, named) in [
            ("mongodb://h/d?namespace=xyzzy", "namespace"),
            ("mongodb://h/d?w=1", "w"),
            ("mongodb://h/d?journal=false", "journal"),
            ("mongodb://h/d?wTimeoutMS=1", "wTimeoutMS"),
            ("mongodb://h/d?readConcernLevel=local", "readConcernLevel"),
            ("mongodb://h/d?retryWrites=false", "retryWrites"),
            ("mongodb://h/d?deadline_ms=soon", "deadline_ms"),
            ("mongodb://h/d?text_index=some", "text_index"),
            ("mongodb://h/d?maxPoolSize=xyzzy", "maxPoolSize"),
            ("mongodb://h/admin", "authSource"),
            ("mongodb://u:xyzzy@h:port/d", "hosts"),
            ("mongodb://u:xyzzy?a@h/d", "percent-encoded"),
            ("mongodb://u:1/xyzzy@h/d", "percent-encoded"),
            ("postgres://u:xyzzy@h", "mongodb://"),
        ] {
            let error = MongoConfig::from_url(url).expect_err(url);
            assert!(error.message().contains(named), "{url}: {error}");
            assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
        }
    }

    #[test]
    fn passwords_show_nowhere() {
        let config = MongoConfig::from_url("mongodb://user:xyz%3Azy@h/d?authSource=admin&tls=true").expect("valid");
        let shown = format!("{config:?}");
        assert!(!shown.contains("zy") && !shown.contains("user"), "{shown}");
    }
}
