//! The one script, for pages that change in place, and how it is set up. No page needs it.

use std::sync::LazyLock;

use axum::response::IntoResponse;
use maud::{Markup, html};

use super::{SCRIPT, asset};

/// htmx 2.0.11, as published; its licence lies beside it.
const HTMX: &str = include_str!("vendor/htmx.min.js");

/// It makes no code of texts and adds no style, as the policy of the pages says; asks this server alone; and keeps no page. What went wrong is
/// shown in the place of the answer, unless the answer says otherwise, and links in an answer work at once. A proxy answers 502, 503 or 504
/// with a page of its own while the server is gone: the target then keeps its content, and only an error of this server is appended.
const SETTINGS: &str = r#"{"allowEval":false,"allowScriptTags":false,"includeIndicatorStyles":false,"defaultSettleDelay":0,"selfRequestsOnly":true,"historyEnabled":false,"historyCacheSize":0,"ignoreTitle":true,"responseHandling":[{"code":"[23]..","swap":true},{"code":"50[234]","swap":true,"error":true,"select":"main > .error","swapOverride":"beforeend"},{"code":"[45]..","swap":true,"error":true}]}"#;

static HREF: LazyLock<String> = LazyLock::new(|| asset::address(SCRIPT, HTMX));

/// What the head of a page has of it.
pub(super) fn head() -> Markup {
    html! {
        meta name="htmx-config" content=(SETTINGS);
        script src=(*HREF) defer {}
    }
}

pub(super) async fn file() -> impl IntoResponse {
    asset::kept("text/javascript; charset=utf-8", HTMX)
}
