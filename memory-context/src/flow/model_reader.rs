//! A reader of attachments that uses a model.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memory_core::{Error, Result};
use memory_model::{ChatMessage, Model, Prompt};
use percent_encoding::percent_decode_str;

use super::attachments::{image_of, media_type};
use super::{AttachmentContent, AttachmentKind, AttachmentReader};
use crate::records::Attachment;

/// Describes images with a model, and extracts the text of documents from `data:` URLs of text, JSON or XML. It leaves other attachments
/// as they are.
///
/// A description is cut to 4 KiB, and a text to 32 KiB. The tokens for descriptions are not in the usage of an answer.
#[derive(Debug, Clone, Default)]
pub struct ModelReader {
    model: Option<Arc<dyn Model>>,
}

const DESCRIBE: &str =
    "Describe this image for somebody who can't see it, in one or two sentences. Answer with the description alone.";
const MAX_DESCRIPTION: usize = 4 << 10;
const MAX_TEXT: usize = 32 << 10;

impl ModelReader {
    /// Makes a reader that describes images with this model, if the model takes images. The default describes none.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self { model: Some(model) }
    }

    async fn describe(&self, attachment: &Attachment) -> Result<Option<AttachmentContent>> {
        let model = self.model.as_ref().filter(|model| model.modalities().images);
        let Some((model, image)) = model.zip(image_of(attachment)) else { return Ok(None) };
        let messages = vec![ChatMessage::user(DESCRIBE).with_attachment(image)];
        let described = model.complete(&Prompt { messages, ..Prompt::default() }).await?;
        Ok(Some(described.text.trim()).filter(|text| !text.is_empty()).map(|text| AttachmentContent {
            description: Some(cut(text, MAX_DESCRIPTION)),
            ..AttachmentContent::default()
        }))
    }
}

#[async_trait]
impl AttachmentReader for ModelReader {
    async fn read(&self, attachment: &Attachment, kind: AttachmentKind) -> Result<Option<AttachmentContent>> {
        match kind {
            AttachmentKind::Image => self.describe(attachment).await,
            AttachmentKind::Document => {
                let text = text_of(attachment)?.filter(|text| !text.trim().is_empty());
                Ok(text
                    .map(|text| AttachmentContent { text: Some(cut(&text, MAX_TEXT)), ..AttachmentContent::default() }))
            }
            AttachmentKind::Other => Ok(None),
        }
    }
}

/// Returns the text of a document from its `data:` URL.
fn text_of(attachment: &Attachment) -> Result<Option<String>> {
    let media_type = media_type(attachment);
    let is_text =
        media_type.starts_with("text/") || matches!(media_type.as_str(), "application/json" | "application/xml");
    let Some((head, data)) =
        attachment.url.strip_prefix("data:").filter(|_| is_text).and_then(|url| url.split_once(','))
    else {
        return Ok(None);
    };
    let bytes = match head.ends_with(";base64") {
        true => STANDARD.decode(data).map_err(|error| Error::invalid("not valid base64").with_source(error))?,
        false => percent_decode_str(data).collect(),
    };
    String::from_utf8(bytes).map(Some).map_err(|_| Error::invalid("the document is not UTF-8"))
}

/// Cuts a text to a number of bytes.
fn cut(text: &str, limit: usize) -> String {
    text[..text.floor_char_boundary(limit)].to_owned()
}

#[cfg(test)]
mod tests {
    use memory_model::{Completion, Modalities};

    use super::*;

    /// Sees images, and tells how many there are.
    #[derive(Debug)]
    struct Seeing(Modalities);

    #[async_trait]
    impl Model for Seeing {
        async fn complete(&self, prompt: &Prompt) -> Result<Completion> {
            let seen: usize = prompt.messages.iter().map(|message| message.attachments.len()).sum();
            Ok(format!(" {seen} image {}", "é".repeat(3_000)).into())
        }

        fn modalities(&self) -> Modalities {
            self.0
        }
    }

    fn attachment(url: &str, content_type: &str) -> Attachment {
        Attachment { url: url.to_owned(), content_type: Some(content_type.to_owned()), ..Attachment::default() }
    }

    async fn read(reader: &ModelReader, url: &str, content_type: &str) -> Result<Option<AttachmentContent>> {
        let attachment = attachment(url, content_type);
        reader.read(&attachment, AttachmentKind::of(&attachment)).await
    }

    #[tokio::test]
    async fn images_are_described_where_the_model_sees() {
        let images = Modalities { images: true, ..Modalities::default() };
        let seeing = ModelReader::new(Arc::new(Seeing(images)));
        let found = read(&seeing, "https://host.example/a.png", "image/png").await.expect("read").expect("described");
        let description = found.description.expect("described");
        assert!(description.starts_with("1 image é") && description.len() <= MAX_DESCRIPTION, "{}", description.len());
        for reader in [ModelReader::default(), ModelReader::new(Arc::new(Seeing(Modalities::default())))] {
            assert_eq!(read(&reader, "https://host.example/a.png", "image/png").await.expect("read"), None);
        }
        assert_eq!(read(&seeing, "http://host/a.png", "image/png").await.expect("read"), None, "no endpoint gets it");
    }

    #[tokio::test]
    async fn the_text_of_a_document_that_came_whole_is_read() {
        let reader = ModelReader::default();
        for (url, content_type, text) in [
            ("data:text/plain;base64,YnV5IG1pbGs=", "text/plain", Some("buy milk")),
            ("data:text/plain,buy%20milk", "text/plain; charset=utf-8", Some("buy milk")),
            ("data:application/json,{}", "application/json", Some("{}")),
            ("data:text/plain,%20", "text/plain", None),
            ("data:application/pdf;base64,AAAA", "application/pdf", None),
            ("https://host/a.txt", "text/plain", None),
            ("data:text/plain", "text/plain", None),
            ("data:audio/ogg,a", "audio/ogg", None),
        ] {
            let found = read(&reader, url, content_type).await.expect("read");
            assert_eq!(found.and_then(|found| found.text).as_deref(), text, "{url}");
        }
        for broken in ["data:text/plain;base64,Y", "data:text/plain,%FF"] {
            let error = read(&reader, broken, "text/plain").await.expect_err("no text");
            assert!(!error.to_string().contains("FF"), "{error}");
        }
        let long = format!("data:text/plain,{}", "é".repeat(MAX_TEXT));
        let found = read(&reader, &long, "text/plain").await.expect("read").expect("a text");
        assert_eq!(found.text.expect("a text").len(), MAX_TEXT);
    }
}
