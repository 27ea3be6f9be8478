//! The options for the expiry of a record.

use std::time::Duration;

use clap::Args;
use memory_core::{Clock as _, SystemClock, Timestamp};

use super::values;
use crate::usage::Usage;

/// The options for the expiry of a record.
#[derive(Debug, Args)]
pub(crate) struct ExpiryArgs {
    /// Let the record expire after this time: a number with ms, s, m, h, d or w, as in 30d.
    #[arg(long, value_name = "TIME", value_parser = values::duration, conflicts_with = "expires_at")]
    expires_in: Option<Duration>,
    /// Let the record expire at this time, in milliseconds since 1970 UTC.
    #[arg(long, value_name = "MS", value_parser = values::timestamp, allow_negative_numbers = true)]
    expires_at: Option<Timestamp>,
}

impl ExpiryArgs {
    /// The time of expiry, if one is given.
    pub(crate) fn time(&self) -> Result<Option<Timestamp>, Usage> {
        let Some(expires_in) = self.expires_in else { return Ok(self.expires_at) };
        let millis = i64::try_from(expires_in.as_millis()).unwrap_or(i64::MAX);
        let time = Timestamp::from_millis(SystemClock.now().as_millis().saturating_add(millis));
        time.map(Some).map_err(|error| Usage(format!("--expires-in: {}", error.message())))
    }
}
