//! Images and documents that go with a message.

use std::fmt;

/// An image or a document that goes with a message. Its URL is a `data:` URL with the content in base64, or an `https:` URL if
/// the endpoint fetches such URLs itself.
#[derive(Clone, PartialEq, Eq)]
pub enum PromptAttachment {
    /// An image, for models that take images ([`Modalities::images`](crate::Modalities::images)).
    Image {
        /// The image, as in `data:image/png;base64,…`.
        url: String,
    },
    /// A document, for models that take documents ([`Modalities::documents`](crate::Modalities::documents)).
    Document {
        /// Its file name, as in `report.pdf`.
        name: String,
        /// The document, as in `data:application/pdf;base64,…`.
        url: String,
    },
}

impl PromptAttachment {
    /// Returns an image with this URL.
    pub fn image(url: impl Into<String>) -> Self {
        Self::Image { url: url.into() }
    }

    /// Returns a document with this file name and URL.
    pub fn document(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self::Document { name: name.into(), url: url.into() }
    }
}

impl fmt::Debug for PromptAttachment {
    /// Shows only the kind and the size, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, url) = match self {
            Self::Image { url } => ("Image", url),
            Self::Document { url, .. } => ("Document", url),
        };
        write!(f, "{kind}({} bytes)", url.len())
    }
}
