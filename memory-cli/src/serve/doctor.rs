//! The checks of `agent-memory doctor` for the console of a server.

use std::fmt;

use axum::http::StatusCode;
use memory_core::MemoryProvider;
use tokio::sync::Semaphore;

use super::problem::Problem;
use crate::diagnosis::{self, Finding};

/// Runs the checks on the engine of the server, for one caller at a time.
pub(crate) struct Doctor {
    url: String,
    turn: Semaphore,
}

impl Doctor {
    /// Makes a doctor for the engine of a URL.
    pub(crate) fn of(url: &str) -> Self {
        Self { url: url.to_owned(), turn: Semaphore::new(1) }
    }

    /// Runs all checks that write nothing. It opens a few extra connections, and reads single records.
    pub(crate) async fn examine(&self, provider: &dyn MemoryProvider) -> Result<Vec<Finding>, Problem> {
        let Ok(_turn) = self.turn.try_acquire() else {
            return Err(Problem::busy("the doctor already runs for another request: try again later"));
        };
        let unusable = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the URL of the engine can't be read");
        let database = diagnosis::of_database(&self.url).await.map_err(unusable)?;
        let mut findings = database.findings;
        if database.is_usable {
            findings.extend(diagnosis::of_memory(provider).await?);
        }
        Ok(findings)
    }
}

/// Leaves out the URL, which may hold a password.
impl fmt::Debug for Doctor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Doctor")
    }
}
