//! How to reach a server, and the settings of the provider.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use memory_core::engine::{Config, DEFAULT_DEADLINE, EngineSettings, parameter};
use memory_core::{Clock, Error, HistorySettings, Language, Result, SystemClock};
use mongodb::options::{
    Acknowledgment, ClientOptions, ConnectionString, DriverInfo, ReadConcern, ReadConcernLevel, WriteConcern,
};

use crate::error::native;

/// The upper limit for a set-up or for the confirmation of a write, whatever the deadline of calls.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Which servers to use, and the settings of the provider.
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
    /// The replica set and how to reach it.
    pub server: Server,
    /// The database that holds everything; `agent_memory` by default.
    pub namespace: String,
    /// The language in which `recall` reads questions and records; English by default.
    pub language: Language,
    /// The settings of the history; the stored ones apply by default.
    pub history: HistorySettings,
    /// How long a call may take; 30 s by default.
    pub deadline: Duration,
    /// The clock that sets `updatedAt`; the machine's clock by default.
    pub clock: Arc<dyn Clock>,
}

/// The servers and driver options of a URL. `Debug` shows only the hosts.
#[derive(Clone)]
pub struct Server(ConnectionString);

const DEFAULT_NAMESPACE: &str = "agent_memory";
/// How long a call waits for a primary: longer than an election takes, and shorter than the deadline of most calls.
const SERVER_SELECTION: Duration = Duration::from_secs(20);
/// The most open connections to each server.
const POOL_SIZE: u32 = 100;

impl MongoConfig {
    /// Reads `mongodb://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?PARAMETERS`, also with `mongodb+srv:`.
    ///
    /// The database is the namespace. The provider's own parameters are `language`, `history`, `transient` and
    /// `deadline_ms`; the others are the driver's. An unknown parameter is `InvalidInput` that names it, and so is one
    /// that asks for less than the contract promises: `w`, `journal` and `readConcernLevel` accept only the value that
    /// the provider uses anyway, and `wTimeoutMS` accepts none. `retryWrites` has no effect: the provider itself repeats
    /// what can be repeated.
    pub fn from_url(url: &str) -> Result<Self> {
        let (address, parameters) = url.split_once('?').unwrap_or((url, ""));
        let rest = ["mongodb://", "mongodb+srv://"].iter().find_map(|scheme| address.strip_prefix(scheme));
        let rest = rest.ok_or_else(|| Error::invalid("a MongoDB URL must begin with mongodb:// or mongodb+srv://"))?;
        // The driver's error would quote what follows, which is part of the password in this case.
        if rest.split_once('/').is_some_and(|(_, database)| database.contains('@')) || parameters.contains('@') {
            return Err(Error::invalid("the password in the MongoDB URL has a / or a ? that is not percent-encoded"));
        }
        let (mut language, mut history) = (Language::default(), HistorySettings::default());
        let (mut deadline, mut others) = (DEFAULT_DEADLINE, Vec::new());
        for given in parameters.split('&').filter(|given| !given.is_empty()) {
            match given.split_once('=').unwrap_or((given, "")) {
                (name @ "language", value) => language = parameter(name, value)?,
                (name @ "deadline_ms", millis) => deadline = Duration::from_millis(parameter(name, millis)?),
                (name, value) if history.set(name, value)? => {}
                _ => others.push(given),
            }
        }
        let separator = if rest.contains('/') { "?" } else { "/?" };
        let server = ConnectionString::parse(format!("{address}{separator}{}", others.join("&")));
        let server = server.map_err(|_| refusal(&others))?;
        check_promises(&server)?;
        let namespace = server.default_database.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        check_namespace(&namespace)?;
        Ok(Self { server: Server(server), namespace, language, history, deadline, clock: Arc::new(SystemClock) })
    }

    /// The options for opening the driver. Queries DNS if the URL requires it.
    pub(crate) async fn client_options(&self) -> Result<ClientOptions> {
        let mut options = ClientOptions::parse(self.server.0.clone()).await.map_err(native)?;
        options.app_name.get_or_insert_with(|| "agent-memory".to_owned());
        options.driver_info = Some(DriverInfo::builder().name(program(&self.namespace)).build());
        options.server_selection_timeout.get_or_insert(SERVER_SELECTION);
        options.max_pool_size.get_or_insert(POOL_SIZE);
        // Zero would mean no limit.
        let end = self.deadline.clamp(Duration::from_millis(1), LONGEST);
        let concern = WriteConcern::builder().w(Acknowledgment::Majority).w_timeout(end).journal(true);
        options.write_concern = Some(concern.build());
        options.read_concern = Some(ReadConcern::majority());
        // After two attempts the driver reports only the second answer, so a write that the first attempt did could
        // appear refused.
        options.retry_writes = Some(false);
        Ok(options)
    }
}

impl Config for MongoConfig {
    fn settings(&self) -> EngineSettings {
        let Self { deadline, language, history, clock, .. } = self.clone();
        EngineSettings { deadline, patience: deadline, language, history, clock }
    }

    fn check(&self) -> Result<()> {
        check_namespace(&self.namespace)
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
        f.debug_tuple("Server").field(&self.0.host_info).finish()
    }
}

/// The name that programs on a namespace report to the server, besides the application name in the URL: a part of the
/// driver's name.
pub(crate) fn program(namespace: &str) -> String {
    format!("agent-memory/{namespace}")
}

/// The namespace is the name of a database.
/// <https://www.mongodb.com/docs/manual/reference/limits/#naming-restrictions>
fn check_namespace(name: &str) -> Result<()> {
    let is_odd = |character: char| character.is_control() || "/\\. \"$*<>:|?".contains(character);
    if name.is_empty() || name.len() > 63 || name.contains(is_odd) {
        return Err(Error::invalid(
            "a namespace must be the name of a database: 1 to 63 bytes without spaces, control \
             characters or any of /\\.\"$*<>:|?",
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
    let writes = server.write_concern.clone().unwrap_or_default();
    let reads = server.read_concern.as_ref();
    let broken = [
        ("w", !matches!(writes.w, None | Some(Acknowledgment::Majority))),
        ("journal", writes.journal == Some(false)),
        ("wTimeoutMS", writes.w_timeout.is_some()),
        ("readConcernLevel", reads.is_some_and(|concern| concern.level != ReadConcernLevel::Majority)),
    ];
    broken.iter().find(|(_, is_broken)| *is_broken).map_or(Ok(()), |(name, _)| Err(wrong(name)))
}

/// The error for a URL that the driver refuses. The driver's own message can quote a part of the password.
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
