//! An agent whose answer is heard as it is written.

use std::sync::Arc;

use async_trait::async_trait;
use conformance::CaseResult;
use memory_context::agent::Piece;
use memory_context::records::{Audience, EntityId, Records, RoomId};
use memory_core::{MemoryProvider, Result};

use crate::deadly::effect;
use crate::group;
use crate::model::Asked;
use crate::place::Place;
use crate::story::{BEGUN, Story, Told, kill_everywhere};

const QUESTION: &str = "How are you?";
const ANSWER: [&str; 2] = [BEGUN, ", Ana!"];

/// The life of the other process.
pub(crate) async fn live(part: &str, place: &Place, provider: &Arc<dyn MemoryProvider>) -> CaseResult {
    let agent = group::agent(place, provider).await?;
    if part == "asks" {
        let mut pieces = agent.ask_stream("ana", QUESTION);
        while let Some(piece) = pieces.next().await {
            if let Piece::Text(text) = piece? {
                effect(&place.folder, &text);
            }
        }
    }
    group::goes_on(&agent, provider).await?;
    Ok(agent.shutdown().await?)
}

/// One question, which nobody delivers again.
#[derive(Default)]
struct Streamed {
    /// How often the question was kept by a process that did not answer it to its end.
    taken_up: usize,
}

#[async_trait]
impl Story for Streamed {
    const LIFE: &'static str = "streamed asks";
    const THEN: &'static [&'static str] = &["streamed goes on"];

    async fn begin(&self, _: &Records) -> Result<()> {
        Ok(())
    }

    fn answer(&self, asked: Asked, life: &str) -> Option<Asked> {
        if life == Self::LIFE {
            let answer = asked.begins();
            ANSWER.iter().for_each(|piece| answer.writes(piece));
            answer.ends();
        } else {
            asked.writes(&ANSWER.concat());
        }
        None
    }

    async fn check(&mut self, told: &Told<'_>) -> CaseResult {
        let audience = Audience::new(RoomId::parse("dm:ana")?, EntityId::parse("ana")?);
        let stored = told.records.messages().recent(&audience, 100).await?;
        let heard = told.effects.iter().filter(|effect| !effect.starts_with("LOOKING")).cloned().collect::<String>();
        let Some(question) = stored.iter().find(|message| message.content.text == QUESTION) else {
            assert!(told.is_cut && stored.is_empty() && heard.is_empty(), "{told:?}");
            return Ok(());
        };
        let answer =
            stored.iter().find(|message| message.content.in_reply_to == Some(question.id)).ok_or("an answer")?;
        assert_eq!((stored.len(), answer.content.text.as_str()), (2, &*ANSWER.concat()), "once, {told:?}");
        assert!(
            if told.is_cut { answer.content.text.starts_with(&heard) } else { answer.content.text == heard },
            "{told:?}"
        );
        self.taken_up += usize::from(told.is_cut);
        Ok(())
    }
}

pub(crate) async fn killed(url: &str) -> CaseResult {
    let mut story = Streamed::default();
    let cut = kill_everywhere(url, &mut story).await?;
    assert!(cut > 10 && story.taken_up > 5, "{cut} lives were cut, {} behind the question", story.taken_up);
    Ok(())
}
