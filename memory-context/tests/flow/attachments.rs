//! Attachments of messages.

use std::sync::Arc;

use async_trait::async_trait;
use memory_context::flow::{AttachmentContent, AttachmentKind, AttachmentReader, End};
use memory_context::records::Attachment;
use memory_core::{Error, Result};

use crate::stage::{Stage, said, text};

#[derive(Debug)]
struct Reader;

#[async_trait]
impl AttachmentReader for Reader {
    async fn read(&self, attachment: &Attachment, kind: AttachmentKind) -> Result<Option<AttachmentContent>> {
        match (attachment.id.as_str(), kind) {
            ("broken", _) => Err(Error::invalid("no")),
            ("panic", _) => panic!("as a test"),
            (_, AttachmentKind::Image) => Ok(Some(AttachmentContent {
                description: Some("a cat on a roof".into()),
                ..AttachmentContent::default()
            })),
            (_, AttachmentKind::Document) => Ok(Some(AttachmentContent {
                title: Some("notes".into()),
                text: Some("buy milk".into()),
                ..AttachmentContent::default()
            })),
            (_, AttachmentKind::Other) => Ok(None),
        }
    }
}

#[tokio::test]
async fn what_comes_with_a_message_is_read_before_it_is_answered() {
    let mut stage = Stage::with(|services| services, |service| service.with_attachment_reader(Arc::new(Reader))).await;
    let mut incoming = said("ana", "look", 1);
    for (id, content_type) in [
        ("image", "image/png"),
        ("broken", "image/png"),
        ("panic", "image/png"),
        ("document", "text/plain"),
        ("other", "audio/ogg"),
    ] {
        let (id, url) = (id.to_owned(), format!("https://host/{id}"));
        let attachment = Attachment { id, url, content_type: Some(content_type.into()), ..Attachment::default() };
        incoming.message.content.attachments.push(attachment);
    }
    let run = stage.receive(incoming);
    let call = stage.asked().await;
    assert!(call.prompt.contains("a cat on a roof") && call.prompt.contains("notes"), "{}", call.prompt);
    call.answer(text("Nice"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    let attachments = &stage.stored().await[0].content.attachments;
    let found = |one: &Attachment| one.description.clone().or_else(|| one.text.clone()).unwrap_or_default();
    assert_eq!(attachments.iter().map(found).collect::<Vec<_>>(), ["a cat on a roof", "", "", "buy milk", ""]);
}
