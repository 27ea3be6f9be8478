//! A vector in a request.

use serde::Deserialize;
use utoipa::ToSchema;

/// A vector: the base64 of its bytes, or its numbers.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Vector)]
#[allow(dead_code, reason = "it describes what the core reads")]
pub(crate) enum VectorBody {
    Base64(String),
    Numbers(Vec<f32>),
}
