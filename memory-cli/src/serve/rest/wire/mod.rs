//! The bodies of requests and responses. Payloads keep their bytes.

pub(crate) mod documents;
pub(crate) mod memories;
pub(crate) mod page;
pub(crate) mod reading;
pub(crate) mod vector;
