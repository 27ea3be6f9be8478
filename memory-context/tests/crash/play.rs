//! The surroundings of the agents: a platform, tools and an evaluator, with effects on the world.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use memory_context::flow::Platform;
use memory_context::records::Message;
use memory_context::state::{Cx, Evaluation, Evaluator, EvaluatorInfo};
use memory_context::tool::{Tool, ToolContext, ToolOutput};
use memory_core::Result;

use crate::deadly::effect;

/// The instance name of each process, so that none waits for the lease of the one before.
pub(crate) const INSTANCE: &str = "crash-test";

/// A platform that records everything that is said.
#[derive(Debug)]
pub(crate) struct Loud(pub(crate) PathBuf);

#[async_trait]
impl Platform for Loud {
    async fn say(&self, message: &Message) -> Result<()> {
        effect(&self.0, &format!("say {} {}", message.id, message.content.text));
        Ok(())
    }
}

/// A tool whose effect must not be repeated.
pub(crate) fn once(folder: &Path) -> Tool {
    let folder = folder.to_owned();
    Tool::new("ONCE", move |(), _| {
        effect(&folder, "ONCE");
        async { Ok("done") }
    })
}

/// A tool whose effect may be repeated, and that talks.
pub(crate) fn again(folder: &Path) -> Tool {
    let folder = folder.to_owned();
    let tool = Tool::new("AGAIN", move |(), context: ToolContext| {
        let folder = folder.clone();
        async move {
            context.say("Looking").await?;
            effect(&folder, "AGAIN");
            Ok(ToolOutput::said("Looked"))
        }
    });
    tool.repeatable()
}

/// Examines each answer.
#[derive(Debug)]
pub(crate) struct Looking {
    info: EvaluatorInfo,
    folder: PathBuf,
}

impl Looking {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { info: EvaluatorInfo::new("LOOKING", "Looks"), folder: folder.to_owned() }
    }
}

#[async_trait]
impl Evaluator for Looking {
    fn info(&self) -> &EvaluatorInfo {
        &self.info
    }

    async fn validate(&self, _: &Cx<'_>) -> Result<bool> {
        Ok(true)
    }

    async fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<()> {
        effect(&self.folder, &format!("LOOKING at {}", evaluation.cx.message().content.text));
        Ok(())
    }
}

/// The ids of each text that was said.
pub(crate) fn said(effects: &[String]) -> BTreeMap<&str, Vec<&str>> {
    let mut said = BTreeMap::<_, Vec<_>>::new();
    for line in effects.iter().filter_map(|line| line.strip_prefix("say ")) {
        let (id, text) = line.split_once(' ').expect("an id and a text");
        said.entry(text).or_default().push(id);
    }
    said
}

/// Checks that each text was said under one id, and at most one of them twice.
pub(crate) fn assert_said_once(said: &BTreeMap<&str, Vec<&str>>) {
    for (text, ids) in said {
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 1, "{text} under one id: {said:?}");
    }
    assert!(said.values().map(Vec::len).sum::<usize>() <= said.len() + 1, "{said:?}");
}

/// How often the world has seen an effect.
pub(crate) fn count(effects: &[String], name: &str) -> usize {
    effects.iter().filter(|effect| *effect == name).count()
}
