//! The newest memories of spaces, as resources.

use memory_core::plugin::Arguments;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::ErrorData;
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use crate::serve::access::{Access, Writable};
use crate::serve::state::Server;

const NEWEST: &str = "memory://newest";
const SPACE: &str = "memory://space/";
const JSON: &str = "application/json";

/// Those that can be named before anybody asks.
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

/// The newest memories of any space.
pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new(format!("{SPACE}{{space}}"), "space")
        .with_description("The newest memories of a space and what lies below it")
        .with_mime_type(JSON)
}

/// Reads one.
pub(crate) async fn read(server: &Server, access: &Access, uri: &str) -> Result<ResourceContents, ErrorData> {
    let not_found = || ErrorData::resource_not_found("there is no resource of this URI", None);
    let mut arguments = json!({ "source": "ledger" });
    if let Some(space) = uri.strip_prefix(SPACE) {
        let space = percent_decode_str(space).decode_utf8().map_err(|_| not_found())?;
        arguments["space"] = json!(space);
    } else if uri != NEWEST {
        return Err(not_found());
    }
    let query = server.tools.iter().find(|tool| tool.executor.name() == "memory:query").ok_or_else(not_found)?;
    let failed = |error: memory_core::Error| ErrorData::invalid_params(error.message().to_owned(), None);
    let arguments = Arguments::from_value(&arguments).map_err(failed)?;
    let answer = query.executor.call(&access.scope(), &arguments).await.map_err(failed)?;
    Ok(ResourceContents::text(answer.as_str(), uri).with_mime_type(JSON))
}
