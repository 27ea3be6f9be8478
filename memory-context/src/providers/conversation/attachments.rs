//! `ATTACHMENTS`: the files and links of the conversation.

use std::collections::BTreeSet;

use async_trait::async_trait;
use memory_core::{Result, Timestamp};

use crate::providers::format::{indented, json, one_line, section, url};
use crate::records::{Attachment, Message};
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult, cut};

/// Contributes the attachments of the message and of earlier ones.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct Attachments;

static INFO: ProviderInfo =
    ProviderInfo::new("ATTACHMENTS", "The files and links of the conversation, with what is in them").dynamic();

/// The texts of attachments that are older than the newest one by more than this many milliseconds are not shown.
const HIDDEN_AFTER: i64 = 3_600_000;
const HIDDEN: &str = "[Hidden]";
/// The most bytes of texts and descriptions together; the newest come first.
const MAX_TEXTS: usize = 64 << 10;
/// The most attachments that are shown.
const MAX_COUNT: usize = 100;

#[async_trait]
impl ContextProvider for Attachments {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let (services, message) = (cx.services(), cx.message());
        let before = services.records().messages().until(message, services.conversation_length()).await?;
        let attachments = shown(message, &before);
        if attachments.is_empty() {
            return Ok(ProviderResult::default());
        }
        let described: Vec<_> = attachments.iter().map(describe).collect();
        let text = section("Attachments", &described.join("\n\n"));
        Ok(ProviderResult::text(text.clone())
            .with_value("attachments", text)
            .with_data("attachments", json(&attachments)?))
    }
}

/// Selects the attachments of the message, then those of earlier messages, the newest first; each id once. Attachments over the limits are
/// cut or left out.
fn shown(message: &Message, before: &[Message]) -> Vec<Attachment> {
    let others = before.iter().filter(|other| other.id != message.id);
    let with: Vec<_> =
        std::iter::once(message).chain(others).filter(|message| !message.content.attachments.is_empty()).collect();
    let newest = with.iter().map(|message| message.created_at).max().unwrap_or(Timestamp::MIN);
    let mut known = BTreeSet::new();
    let mut shown = Vec::new();
    let mut left = MAX_TEXTS;
    let mut fitting = |text: &String| {
        let fits = cut(text, left).into_owned();
        left -= left.min(text.len());
        fits
    };
    for one in with {
        let is_old = newest.as_millis() - one.created_at.as_millis() > HIDDEN_AFTER && one.id != message.id;
        for attachment in &one.content.attachments {
            if shown.len() < MAX_COUNT && known.insert(&attachment.id) {
                let description = attachment.description.as_ref().map(&mut fitting);
                let text = attachment.text.as_ref();
                let text = text.map(|text| if is_old { HIDDEN.to_owned() } else { fitting(text) });
                shown.push(Attachment { description, text, ..attachment.clone() });
            }
        }
    }
    shown
}

fn describe(attachment: &Attachment) -> String {
    let url = url(attachment);
    let parts = [
        ("ID", Some(attachment.id.as_str())),
        ("Name", attachment.title.as_deref()),
        ("URL", Some(&*url)),
        ("Type", attachment.content_type.as_deref().or(attachment.source.as_deref())),
    ];
    let parts = parts.into_iter().filter_map(|(name, part)| Some(format!("{name}: {}", one_line(part?))));
    let texts = [("Description", &attachment.description), ("Text", &attachment.text)];
    let texts = texts.into_iter().filter_map(|(name, text)| Some(format!("{name}: {}", indented(text.as_ref()?))));
    parts.chain(texts).collect::<Vec<_>>().join("\n")
}
