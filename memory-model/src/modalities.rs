//! The kinds of input that a model takes beside text.

use serde::Deserialize;

/// The kinds of attachments that a model takes beside text; none by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Modalities {
    /// Whether the model takes images.
    pub images: bool,
    /// Whether the model takes documents, such as PDF files.
    pub documents: bool,
}
