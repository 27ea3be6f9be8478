//! What models take beside text.

use serde::Deserialize;

/// What a model takes beside text; nothing by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Modalities {
    /// Whether it sees images.
    pub images: bool,
    /// Whether it reads documents, such as PDF files.
    pub documents: bool,
}
