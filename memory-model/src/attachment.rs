//! What a message carries beside its text.

use std::fmt;

/// An image or a document that goes with a message. The URL is a `data:` URL with the content in base64, or one that the
/// endpoint fetches itself (`https:`), where it does that.
#[derive(Clone, PartialEq, Eq)]
pub enum PromptAttachment {
    /// An image, for models that see.
    Image {
        /// The image, as in `data:image/png;base64,…`.
        url: String,
    },
    /// A document, for models that read files.
    Document {
        /// Its file name, as in `report.pdf`.
        name: String,
        /// The document, as in `data:application/pdf;base64,…`.
        url: String,
    },
}

impl PromptAttachment {
    /// An image at this URL.
    pub fn image(url: impl Into<String>) -> Self {
        Self::Image { url: url.into() }
    }

    /// A document with this file name at this URL.
    pub fn document(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self::Document { name: name.into(), url: url.into() }
    }
}

impl fmt::Debug for PromptAttachment {
    /// Payloads stay out of logs: only the kind and the size show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, url) = match self {
            Self::Image { url } => ("Image", url),
            Self::Document { url, .. } => ("Document", url),
        };
        write!(f, "{kind}({} bytes)", url.len())
    }
}
