//! Static files with addresses derived from their content.

use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use sha2::{Digest, Sha256};

/// The address of a file at this path. It changes with the content, so browsers can cache the file forever.
pub(super) fn address(path: &str, content: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(content).into();
    let version: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{path}?v={version}")
}

/// Returns the file, to be cached forever.
pub(super) fn kept(media_type: &'static str, content: &'static str) -> impl IntoResponse + use<> {
    let kind = HeaderValue::from_static(media_type);
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, forever)], content)
}
