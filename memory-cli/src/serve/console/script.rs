//! The script for pages that update in place, and its settings. No page requires it.

use std::sync::LazyLock;

use axum::response::IntoResponse;
use maud::{Markup, html};

use super::asset;
use super::paths::SCRIPT;

/// htmx 2.0.11, as published; its licence is in the same folder.
const HTMX: &str = include_str!("vendor/htmx.min.js");

/// The settings of the script: no evaluation of code and no inline style, as the content security policy requires; requests only to this
/// server; no page cache. An error is shown in place of the answer, unless the answer says otherwise, and links in answers work at once. While
/// the server is gone, a proxy answers 502, 503 or 504 with a page of its own: then the target keeps its content, and only an error of this
/// server is appended, unless its page says otherwise.
const SETTINGS: &str = r##"{"allowEval":false,"allowScriptTags":false,"includeIndicatorStyles":false,"defaultSettleDelay":0,"selfRequestsOnly":true,"historyEnabled":false,"historyCacheSize":0,"ignoreTitle":true,"responseHandling":[{"code":"[23]..","swap":true},{"code":"50[234]","swap":true,"error":true,"select":"#changes > *, .level, main > .error","swapOverride":"beforeend"},{"code":"[45]..","swap":true,"error":true}]}"##;

static HREF: LazyLock<String> = LazyLock::new(|| asset::address(SCRIPT, HTMX));

/// Renders the script and its settings for the head of a page.
pub(super) fn head() -> Markup {
    html! {
        meta name="htmx-config" content=(SETTINGS);
        script src=(*HREF) defer {}
    }
}

pub(super) async fn file() -> impl IntoResponse {
    asset::kept("text/javascript; charset=utf-8", HTMX)
}
