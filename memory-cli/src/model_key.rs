//! The key of a model behind an endpoint.

use std::env;

use crate::usage::Usage;

/// The environment variable of the key. There is no option for it, since other users of the machine can see the command line.
const KEY: &str = "AGENT_MEMORY_MODEL_KEY";

/// Reads the key, if it is set.
pub(crate) fn read() -> Result<Option<String>, Usage> {
    match env::var(KEY) {
        Ok(key) => Ok(Some(key.trim().to_owned()).filter(|key| !key.is_empty())),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(Usage(format!("{KEY}: must be text"))),
    }
}
