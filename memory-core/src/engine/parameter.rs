//! The parameters of an engine's URL.

use std::str::FromStr;

use crate::{Error, Result};

/// Parses the value of a URL parameter. `InvalidInput` names the parameter and does not quote the value.
pub fn parameter<T: FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| Error::invalid(format!("the value of the URL parameter {name} is not valid")))
}
