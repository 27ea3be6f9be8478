//! The state in the middle of a sequence, with which it can continue on another copy of the data.

use std::sync::Arc;

use memory_core::{Clock as _, DocumentId, ManualClock, Status, Timestamp};

use super::{Begun, Naive, Sides, Step, opened};
use crate::case::Stage;
use crate::ledgers::compare;
use crate::model::op::{Ask, Begins, Call, Item, Of, Op, Question, Watching};
use crate::namespace::Namespace;

/// The model after some calls, and the positions of the watches.
#[derive(Debug, Clone)]
pub(crate) struct State {
    model: Naive,
    document_ids: Vec<DocumentId>,
    watches: Vec<Begun>,
    since: i64,
    now: Timestamp,
}

impl Sides {
    /// Copies the present state.
    pub(crate) fn state(&mut self) -> State {
        self.model.remember_places();
        let Self { model, document_ids, watches, since, .. } = self;
        let (model, document_ids, watches) = (model.clone(), document_ids.clone(), watches.clone());
        State { model, document_ids, watches, since: *since, now: self.stage.namespace().clock.now() }
    }

    /// Begins to watch everything.
    pub(crate) async fn watch_everything(&mut self) -> Step {
        let ask = Ask::everything(1);
        let question = Question { ask, after: None, before: None, statuses: vec![], exclude: vec![] };
        let of = Of { memories: true, collections: Some(&[]) };
        self.watch(0, &Watching { of, question, begins: Begins::WithASnapshot }).await
    }

    /// Shuts down all handles. Each must succeed.
    pub(crate) async fn close(self) -> Step {
        for handle in &self.handles {
            handle.shutdown().await.map_err(|error| format!("it does not close: {error:?}"))?;
        }
        Ok(())
    }
}

impl State {
    /// The namespace, with its clock set to the time of the state.
    pub(crate) fn namespace(&self, namespace: &Namespace) -> Namespace {
        Namespace { clock: Arc::new(ManualClock::new(self.now)), ..namespace.clone() }
    }

    /// Opens the engine of a stage, and compares all its data, and each index, with this state. Then the engine must take another record.
    /// Panics if an entry of an index is missing.
    pub(crate) async fn compare(self, stage: Stage) -> Step {
        let Self { model, document_ids, watches, since, .. } = self;
        let handles = vec![opened(&stage).await?];
        let mut sides = Sides { stage, handles, model, document_ids, watches, since };
        sides.compare_everything().await?;
        sides.watch_everything().await?;
        if sides.can_erase() {
            // Until expired documents are swept, their collection may be listed or not.
            sides.sweep(0, false, true).await?;
        }
        compare(&*sides.handles[0], &sides.model).await.map_err(|error| format!("an index: {error:?}"))?;
        sides.step(&Call { handle: 0, op: another() }).await?;
        sides.compare_everything().await?;
        sides.close().await
    }
}

/// A store that shows that the engine still takes writes.
fn another() -> Op {
    Op::Store(Item {
        space: "a-b".to_owned(),
        trigger: r#""behind the loss""#,
        is_large: false,
        context: None,
        created_at: 3,
        metadata: "{}",
        status: Status::Pending,
        key: None,
        expires: None,
    })
}
