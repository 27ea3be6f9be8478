//! Attachments: their description as text, and their selection for models.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use async_trait::async_trait;
use futures::{FutureExt, StreamExt, stream};
use memory_core::{Error, ErrorKind, Result};
use memory_model::{self as model, Modalities};
use tokio::time::timeout;
use url::{Host, Url};

use crate::records::{Attachment, Message};

/// Describes attachments as text: what an image shows, what a document says. Held as `Arc<dyn AttachmentReader>`.
#[async_trait]
pub trait AttachmentReader: Send + Sync + 'static {
    /// Reads an attachment; `None` if nothing was found, for example because the reader does not support its kind. Dropping the future ends
    /// the read.
    async fn read(&self, attachment: &Attachment, kind: AttachmentKind) -> Result<Option<AttachmentContent>>;
}

impl fmt::Debug for dyn AttachmentReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttachmentReader")
    }
}

/// The content of an attachment as text.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct AttachmentContent {
    /// A title, used if the attachment has none.
    pub title: Option<String>,
    /// A description of what it shows.
    pub description: Option<String>,
    /// The text that it contains.
    pub text: Option<String>,
}

/// The kind of an attachment, by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttachmentKind {
    /// An image.
    Image,
    /// A document or text.
    Document,
    /// Anything else.
    Other,
}

/// The most attachments of a message that are read, and the most images and documents that a model is shown.
pub const MAX_SHOWN: usize = 8;
/// The most bytes of their URLs together, including the contents of `data:` URLs.
pub const MAX_SHOWN_BYTES: usize = 8 << 20;

/// How many attachments are read concurrently.
const AT_ONCE: usize = 4;

impl AttachmentKind {
    /// Returns the kind by the media type.
    pub fn of(attachment: &Attachment) -> Self {
        match media_type(attachment).split_once('/') {
            Some(("image", _)) => Self::Image,
            Some(("text", _)) | Some(("application", "pdf" | "json" | "xml" | "rtf" | "msword")) => Self::Document,
            Some(("application", kind)) if kind.starts_with("vnd.oasis.opendocument.text") => Self::Document,
            Some(("application", kind)) if kind.ends_with(".wordprocessingml.document") => Self::Document,
            _ => Self::Other,
        }
    }
}

/// The media type without its parameters, in lower case; empty if unknown.
pub(super) fn media_type(attachment: &Attachment) -> String {
    let media_type = attachment.content_type.as_deref().unwrap_or_default();
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Selects the attachments of a message for a model: the first ones that it takes and that are within the limits. The others are still in
/// the text of the conversation, with title and description.
pub(super) fn for_model(message: &Message, takes: Modalities) -> Vec<model::PromptAttachment> {
    let mut left = MAX_SHOWN_BYTES;
    let taken = message.content.attachments.iter().filter_map(|attachment| {
        let image = || image_of(attachment).filter(|_| takes.images);
        let document = || document_of(attachment).filter(|_| takes.documents);
        let shown = image().or_else(document)?;
        left = left.checked_sub(attachment.url.len())?;
        Some(shown)
    });
    taken.take(MAX_SHOWN).collect()
}

/// Returns an image of a supported type, as a `data:` URL or as a URL that the endpoint may fetch from a public host.
pub(super) fn image_of(attachment: &Attachment) -> Option<model::PromptAttachment> {
    let is_known = matches!(media_type(attachment).as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp");
    if !is_known {
        return None;
    }
    if attachment.url.starts_with("data:image/") {
        return Some(model::PromptAttachment::image(&attachment.url));
    }
    // The URL as parsed here, so that the endpoint sees the same host.
    public(&attachment.url).map(|url| model::PromptAttachment::image(url.as_str()))
}

/// Parses a URL that an endpoint may be asked to fetch. The author of a message chooses it, so it must be `https`, without user and
/// password, with a public host name. Only the endpoint sees to which address the name resolves.
fn public(url: &str) -> Option<Url> {
    const PRIVATE: [&str; 3] = ["localhost", "local", "internal"];
    let url = Url::parse(url).ok().filter(|url| url.scheme() == "https")?;
    let is_anonymous = url.username().is_empty() && url.password().is_none();
    // An IP address in any notation is not a domain.
    let Some(Host::Domain(host)) = url.host() else { return None };
    let (_, top) = host.trim_end_matches('.').rsplit_once('.')?;
    (is_anonymous && !PRIVATE.contains(&top)).then_some(url)
}

/// Returns a document that is a `data:` URL.
fn document_of(attachment: &Attachment) -> Option<model::PromptAttachment> {
    let is_whole = AttachmentKind::of(attachment) == AttachmentKind::Document && attachment.url.starts_with("data:");
    let name = attachment.title.as_deref().filter(|title| !title.trim().is_empty()).unwrap_or(&attachment.id);
    is_whole.then(|| model::PromptAttachment::document(name, &attachment.url))
}

/// Reads the attachments of a message. Returns them with what was found, or `None` if nothing was found.
///
/// # Behavior
/// - Only the first [`MAX_SHOWN`] are read. An attachment that has a description or a text is not read again.
/// - If the reader fails, panics or misses its deadline, the attachment stays as it is, and the other attachments are still read.
pub(super) async fn read_attachments(
    reader: &dyn AttachmentReader,
    message: &Message,
    limit: Duration,
) -> Option<Vec<Attachment>> {
    let read = stream::iter(message.content.attachments.clone()).enumerate().map(async |(at, attachment)| {
        if at >= MAX_SHOWN || attachment.description.is_some() || attachment.text.is_some() {
            return (attachment, false);
        }
        let work = AssertUnwindSafe(reader.read(&attachment, AttachmentKind::of(&attachment))).catch_unwind();
        let panicked = |_| Error::new(ErrorKind::Unexpected, "the reader panicked");
        let work = work.map(|read| read.map_err(panicked).flatten());
        let late = |_| Error::new(ErrorKind::Timeout, format!("not read within {} ms", limit.as_millis()));
        match timeout(limit, work).await.map_err(late).flatten() {
            Ok(Some(AttachmentContent { title, description, text })) => {
                let title = attachment.title.clone().or(title);
                (Attachment { title, description, text, ..attachment }, true)
            }
            Ok(None) => (attachment, false),
            Err(error) => {
                tracing::warn!(message = %message.id, %error, "an attachment can't be read");
                (attachment, false)
            }
        }
    });
    let (attachments, found): (Vec<_>, Vec<_>) = read.buffered(AT_ONCE).unzip().await;
    found.contains(&true).then_some(attachments)
}

impl fmt::Debug for AttachmentContent {
    /// Shows only the size, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "AttachmentContent({} bytes)",
            self.text.as_ref().or(self.description.as_ref()).map_or(0, String::len)
        )
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use memory_core::{MemoryId, Timestamp};

    use super::*;
    use crate::records::{EntityId, MessageContent, RoomId};

    /// Finds what the id says.
    #[derive(Debug)]
    struct Scripted;

    #[async_trait]
    impl AttachmentReader for Scripted {
        async fn read(&self, attachment: &Attachment, kind: AttachmentKind) -> Result<Option<AttachmentContent>> {
            match attachment.id.as_str() {
                "fail" => Err(Error::invalid("no")),
                "panic" => panic!("as a test"),
                "hang" => pending().await,
                _ => Ok(match kind {
                    AttachmentKind::Image => {
                        Some(AttachmentContent { description: Some("a cat".into()), ..AttachmentContent::default() })
                    }
                    AttachmentKind::Document => {
                        Some(AttachmentContent { text: Some("words".into()), ..AttachmentContent::default() })
                    }
                    AttachmentKind::Other => None,
                }),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_fails_does_not_lose_the_others() {
        let (room, author) = (RoomId::parse("r").expect("valid"), EntityId::parse("ana").expect("valid"));
        let mut content = MessageContent::new(room, author, "look");
        for (id, content_type, text) in [
            ("fail", "image/png", None),
            ("panic", "image/png", None),
            ("image", "image/png", None),
            ("hang", "image/png", None),
            ("document", "text/plain; charset=utf-8", None),
            ("other", "audio/ogg", None),
            ("known", "text/plain", Some("old")),
        ] {
            let (id, url, text) = (id.to_owned(), format!("https://host/{id}"), text.map(str::to_owned));
            let content_type = Some(content_type.to_owned());
            content.attachments.push(Attachment { id, url, content_type, text, ..Attachment::default() });
        }
        let mut message =
            Message { id: MemoryId::generate(), created_at: Timestamp::MIN, content, is_undelivered: false };
        let read = read_attachments(&Scripted, &message, Duration::from_secs(1)).await.expect("something is found");
        let found = |one: &Attachment| one.description.clone().or_else(|| one.text.clone());
        let found: Vec<_> = read.iter().map(found).collect();
        let found: Vec<_> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found, [None, None, Some("a cat"), None, Some("words"), None, Some("old")]);
        assert!(read.iter().all(|one| one.url.ends_with(&one.id) && one.content_type.is_some()));
        let image = &message.content.attachments[2];
        let many = vec![image.clone(); MAX_SHOWN + 2];
        let flood =
            Message { content: MessageContent { attachments: many, ..message.content.clone() }, ..message.clone() };
        let read_of_many = read_attachments(&Scripted, &flood, Duration::from_secs(1)).await.expect("some are read");
        assert_eq!(read_of_many.iter().filter(|one| one.description.is_some()).count(), MAX_SHOWN);
        assert_eq!(read_of_many.len(), MAX_SHOWN + 2, "all are kept");
        message.content.attachments = vec![read[6].clone()];
        assert_eq!(read_attachments(&Scripted, &message, Duration::from_secs(1)).await, None, "nothing new");
    }

    #[test]
    fn a_model_is_shown_what_it_takes_within_the_limits() {
        let (room, author) = (RoomId::parse("r").expect("valid"), EntityId::parse("ana").expect("valid"));
        let shown_of = |attachments: Vec<(String, &str)>, images, documents| {
            let mut content = MessageContent::new(room.clone(), author.clone(), "look");
            content.attachments = attachments
                .into_iter()
                .map(|(url, content_type)| Attachment {
                    id: "a".into(),
                    url,
                    content_type: Some(content_type.into()),
                    ..Attachment::default()
                })
                .collect();
            let message =
                Message { id: MemoryId::generate(), created_at: Timestamp::MIN, content, is_undelivered: false };
            for_model(&message, Modalities { images, documents })
        };
        let one =
            |url: &str, content_type, images, documents| shown_of(vec![(url.into(), content_type)], images, documents);
        let (png, pdf) = ("data:image/png;base64,AA", "data:application/pdf;base64,AA");
        assert_eq!(one(png, "IMAGE/PNG", true, false), [model::PromptAttachment::image(png)]);
        let fetched = [model::PromptAttachment::image("https://host.example:8443/a.jpg?b")];
        assert_eq!(one("https://host.example:8443/a.jpg?b", "image/jpeg", true, false), fetched);
        assert_eq!(one("HTTPS://Host.Example\\@127.0.0.1/", "image/jpeg", true, false).len(), 1, "of that host");
        assert_eq!(one(pdf, "application/pdf", true, true), [model::PromptAttachment::document("a", pdf)]);
        for (url, content_type, images, documents) in [
            (png, "image/png", false, true),
            (pdf, "application/pdf", true, false),
            ("http://host/a.png", "image/png", true, true),
            ("file:///a.png", "image/png", true, true),
            ("data:text/html,a", "image/png", true, true),
            ("https://host.example/a.svg", "image/svg+xml", true, true),
            ("https://host.example/a.pdf", "application/pdf", true, true),
            ("https://host.example/a.ogg", "audio/ogg", true, true),
            ("https://user@host.example/a.png", "image/png", true, true),
            ("https://:secret@host.example/a.png", "image/png", true, true),
            ("https://127.0.0.1/a.png", "image/png", true, true),
            ("https://127.1/a.png", "image/png", true, true),
            ("https://0x7f.1/a.png", "image/png", true, true),
            ("https://2130706433/a.png", "image/png", true, true),
            ("https://169.254.169.254./a.png", "image/png", true, true),
            ("https://[::1]/a.png", "image/png", true, true),
            ("https://localhost/a.png", "image/png", true, true),
            ("https://localhost./a.png", "image/png", true, true),
            ("https://intranet/a.png", "image/png", true, true),
            ("https://a.LOCALHOST/a.png", "image/png", true, true),
            ("https://printer.local/a.png", "image/png", true, true),
            ("https://metadata.google.internal/a.png", "image/png", true, true),
        ] {
            assert!(one(url, content_type, images, documents).is_empty(), "{url} {content_type}");
        }
        let many = vec![(png.to_owned(), "image/png"); MAX_SHOWN + 1];
        assert_eq!(shown_of(many, true, true).len(), MAX_SHOWN);
        let image = |bytes: usize| (format!("data:image/png;base64,{}", "A".repeat(bytes)), "image/png");
        let sizes = vec![image(MAX_SHOWN_BYTES), image(MAX_SHOWN_BYTES / 2), image(MAX_SHOWN_BYTES / 2), image(9)];
        assert_eq!(shown_of(sizes, true, true).len(), 2, "those that fit");
    }

    #[test]
    fn kinds_follow_from_media_types() {
        use AttachmentKind::{Document, Image, Other};
        for (media_type, kind) in [
            ("image/png", Image),
            ("IMAGE/JPEG", Image),
            ("text/plain; charset=utf-8", Document),
            ("application/pdf", Document),
            ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", Document),
            ("audio/ogg", Other),
            ("application/zip", Other),
            ("", Other),
        ] {
            let attachment = Attachment { content_type: Some(media_type.into()), ..Attachment::default() };
            assert_eq!(AttachmentKind::of(&attachment), kind, "{media_type}");
        }
        assert_eq!(AttachmentKind::of(&Attachment::default()), Other);
    }
}
