//! The style sheet of all pages, and its address.

use std::sync::LazyLock;

use axum::response::IntoResponse;

use super::asset;
use super::paths::STYLE;

const SHEET: &str = include_str!("style.css");

static HREF: LazyLock<String> = LazyLock::new(|| asset::address(STYLE, SHEET));

pub(super) fn href() -> &'static str {
    &HREF
}

pub(super) async fn sheet() -> impl IntoResponse {
    asset::kept("text/css; charset=utf-8", SHEET)
}
