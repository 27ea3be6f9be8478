//! The newest memories of spaces, as resources.

use std::borrow::Cow;

use memory_core::plugin::AnswerJson;
use memory_core::{Ledger, MemoryQuery, QueryBuilder};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};

use crate::serve::access::{Access, Writable};

const NEWEST: &str = "memory://newest";
const SPACE: &str = "memory://space/";
const JSON: &str = "application/json";

/// Lists the resources that are known in advance.
pub(crate) fn list(access: &Access) -> Vec<Resource> {
    let newest = Resource::new(NEWEST, "newest")
        .with_description("The newest memories of all spaces that may be read")
        .with_mime_type(JSON);
    let mut resources = vec![newest];
    if let Writable::Under(space) = &access.writable {
        let uri = format!("{SPACE}{}", utf8_percent_encode(space.as_str(), NON_ALPHANUMERIC));
        let description = format!("The newest memories of {space} and what lies below it");
        resources.push(Resource::new(uri, space.as_str()).with_description(description).with_mime_type(JSON));
    }
    resources
}

/// The template of the newest memories of a space.
pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new(format!("{SPACE}{{space}}"), "space")
        .with_description("The newest memories of a space and what lies below it")
        .with_mime_type(JSON)
}

/// The arguments of `memory:query` for a resource; `None` if there is no such resource.
pub(crate) fn arguments(uri: &str) -> Option<Value> {
    Some(match space(uri)? {
        None => json!({ "source": "ledger" }),
        Some(space) => json!({ "source": "ledger", "space": space }),
    })
}

/// The query of the memories of a resource; `None` if there is no such resource.
pub(crate) fn query(uri: &str) -> Option<QueryBuilder<Ledger>> {
    Some(match space(uri)? {
        None => MemoryQuery::builder().all(),
        Some(space) => MemoryQuery::builder().under(space),
    })
}

/// The space of a resource, if it has one.
fn space(uri: &str) -> Option<Option<Cow<'_, str>>> {
    match uri {
        NEWEST => Some(None),
        uri => percent_decode_str(uri.strip_prefix(SPACE)?).decode_utf8().ok().map(Some),
    }
}

/// Returns an answer as the contents of a resource.
pub(crate) fn contents(uri: &str, answer: &AnswerJson) -> ResourceContents {
    ResourceContents::text(answer.as_str(), uri).with_mime_type(JSON)
}
