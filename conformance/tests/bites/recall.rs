//! The recalls of the reference with one bug.

use memory_core::{
    Container, ErrorKind, InMemory, Language, Memory, MemoryProvider, MemoryQuery, MemoryRecall, Recall, Recalled,
    Result, Weights,
};

use crate::flaw::Flaw;

/// The answer of a recall of the ledger, apart from the flaw.
pub(crate) async fn recall(inner: &InMemory, flaw: Flaw, recall: &MemoryRecall) -> Result<Recalled<Memory>> {
    let query = recall.query();
    let mut recalled = match inner.recall(&asked(flaw, recall)?).await {
        Err(error) if flaw == Flaw::ModelFailuresFindNothing && error.kind() != ErrorKind::Closed => {
            inner.recall(&Recall::new("", query.clone())?).await?
        }
        answer => answer?,
    };
    recalled.hits.retain(|hit| match flaw {
        Flaw::RecallCountsOthers => query.spaces().matches(hit.record.space_id.as_str()),
        Flaw::RecallForgetsUpdates => hit.record.updated_at.is_none(),
        _ => true,
    });
    Ok(recalled)
}

/// The recall that is made instead.
fn asked(flaw: Flaw, recall: &MemoryRecall) -> Result<MemoryRecall> {
    let (mut query, mut options) = (recall.query().clone(), recall.options().clone());
    match flaw {
        Flaw::RecallCountsOthers => query = MemoryQuery::builder().all().limit(query.limit()).build()?,
        Flaw::RecallDropsTheWindow => options.weights.window = 0,
        Flaw::RecallCutsCandidates => options.weights.candidates = 3,
        Flaw::RecallKnowsNoWeights => options.weights = Weights::default(),
        Flaw::RecallKnowsNoLanguage => options.language = Some(Language::None),
        Flaw::RecallKnowsNoContainers => options.container = Container::Parent,
        Flaw::RecallKnowsNoSpeakers => options.speaker = "nobody".to_owned(),
        _ => return Ok(recall.clone()),
    }
    Recall::with(recall.question(), query, options)
}
