//! The one style sheet of all pages, and its address.

use std::sync::LazyLock;

use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use sha2::{Digest, Sha256};

use super::STYLE;

const SHEET: &str = include_str!("style.css");

/// The address of the sheet. It changes with the sheet, so browsers keep it for good.
static HREF: LazyLock<String> = LazyLock::new(|| {
    let digest: [u8; 32] = Sha256::digest(SHEET).into();
    let version: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{STYLE}?v={version}")
});

pub(super) fn href() -> &'static str {
    &HREF
}

pub(super) async fn sheet() -> impl IntoResponse {
    let kind = HeaderValue::from_static("text/css; charset=utf-8");
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, forever)], SHEET)
}
