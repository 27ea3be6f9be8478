//! A server of each engine that has one.

use conformance::server::TestServer;

pub(crate) struct Servers {
    postgres: TestServer,
    redis: TestServer,
    mongo: TestServer,
}

impl Servers {
    pub(crate) fn start() -> Self {
        Self {
            postgres: TestServer::postgres().unwrap_or_else(|missing| panic!("{}", missing.reason())),
            redis: TestServer::redis().unwrap_or_else(|missing| panic!("{}", missing.reason())),
            mongo: TestServer::mongo().unwrap_or_else(|missing| panic!("{}", missing.reason())),
        }
    }

    /// The URL of a namespace on PostgreSQL, Redis and MongoDB.
    pub(crate) fn urls(&self, namespace: &str) -> [String; 3] {
        let mongo = match self.mongo.url().split_once("/?") {
            // The namespace of MongoDB is its database.
            Some((address, options)) => format!("{address}/{namespace}?{options}"),
            None => format!("{}/{namespace}", self.mongo.url().trim_end_matches('/')),
        };
        let parameter = format!("namespace={namespace}");
        [with_parameter(self.postgres.url(), &parameter), with_parameter(self.redis.url(), &parameter), mongo]
    }
}

/// A URL with a parameter more.
pub(crate) fn with_parameter(url: &str, parameter: &str) -> String {
    format!("{url}{}{parameter}", if url.contains('?') { '&' } else { '?' })
}
