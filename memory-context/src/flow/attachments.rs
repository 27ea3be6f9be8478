//! What came with a message, in words.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use async_trait::async_trait;
use futures::{FutureExt, StreamExt, stream};
use memory_core::{Error, ErrorKind, Result};
use tokio::time::timeout;

use crate::records::{Attachment, Message};

/// Puts what came with messages into words, held as `Arc<dyn AttachmentReader>`: what an image shows, what a document says.
#[async_trait]
pub trait AttachmentReader: fmt::Debug + Send + Sync + 'static {
    /// What it shows or says; `None` where there is nothing to find, as for a kind that the reader does not know. Dropping the
    /// future ends it.
    async fn read(&self, attachment: &Attachment, kind: AttachmentKind) -> Result<Option<Found>>;
}

/// What an attachment shows or says.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// What it is called, where that is not known.
    pub title: Option<String>,
    /// What it shows.
    pub description: Option<String>,
    /// The text in it.
    pub text: Option<String>,
}

/// What kind of thing came with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttachmentKind {
    /// Something to look at.
    Image,
    /// Something to read.
    Document,
    /// Anything else.
    Other,
}

/// How many are read at once.
const AT_ONCE: usize = 4;

impl AttachmentKind {
    /// By the media type.
    pub fn of(attachment: &Attachment) -> Self {
        let media_type = attachment.content_type.as_deref().unwrap_or_default().to_ascii_lowercase();
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        match media_type.split_once('/') {
            Some(("image", _)) => Self::Image,
            Some(("text", _)) | Some(("application", "pdf" | "json" | "xml" | "rtf" | "msword")) => Self::Document,
            Some(("application", kind)) if kind.starts_with("vnd.oasis.opendocument.text") => Self::Document,
            Some(("application", kind)) if kind.ends_with(".wordprocessingml.document") => Self::Document,
            _ => Self::Other,
        }
    }
}

/// Reads what came with a message; gives it with what was found, and nothing where nothing was.
///
/// # Behavior
/// - What has a description or a text is not read again.
/// - One whose reader fails, panics, or is not over within the limit stays as it is, and the others go on.
pub(super) async fn read_attachments(
    reader: &dyn AttachmentReader,
    message: &Message,
    limit: Duration,
) -> Option<Vec<Attachment>> {
    let read = stream::iter(message.content.attachments.clone()).map(async |attachment| {
        if attachment.description.is_some() || attachment.text.is_some() {
            return (attachment, false);
        }
        let work = AssertUnwindSafe(reader.read(&attachment, AttachmentKind::of(&attachment))).catch_unwind();
        let panicked = |_| Error::new(ErrorKind::Unexpected, "the reader panicked");
        let work = work.map(|read| read.map_err(panicked).flatten());
        let late = |_| Error::new(ErrorKind::Timeout, format!("not read within {} ms", limit.as_millis()));
        match timeout(limit, work).await.map_err(late).flatten() {
            Ok(Some(Found { title, description, text })) => {
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

impl fmt::Debug for Found {
    /// Payloads stay out of logs: only the size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Found({} bytes)", self.text.as_ref().or(self.description.as_ref()).map_or(0, String::len))
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
        async fn read(&self, attachment: &Attachment, kind: AttachmentKind) -> Result<Option<Found>> {
            match attachment.id.as_str() {
                "fail" => Err(Error::invalid("no")),
                "panic" => panic!("as a test"),
                "hang" => pending().await,
                _ => Ok(match kind {
                    AttachmentKind::Image => Some(Found { description: Some("a cat".into()), ..Found::default() }),
                    AttachmentKind::Document => Some(Found { text: Some("words".into()), ..Found::default() }),
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
        message.content.attachments = vec![read[6].clone()];
        assert_eq!(read_attachments(&Scripted, &message, Duration::from_secs(1)).await, None, "nothing new");
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
