//! Tasks that wait for somebody's choice.

use std::fmt;

use memory_core::filter::Field;
use memory_core::{
    Context, Error, ErrorKind, MAX_LIMIT, Memory, MemoryId, MemoryPatch, MemoryQuery, Metadata, NewMemory, Order,
    Result, SpaceSelector, Status, Timestamp, Trigger,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::layout::task_space;
use super::table::absent;
use super::{Audience, Records, RoomId};

/// The tag of a task that waits for a choice.
pub const AWAITING_CHOICE: &str = "AWAITING_CHOICE";

/// One of the ways to go on.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChoiceOption {
    /// What chooses it; unique in its choice.
    pub name: String,
    /// What it means.
    #[serde(default)]
    pub description: String,
}

/// A choice that is not asked for yet.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewChoice {
    /// Where it is asked for.
    pub room: RoomId,
    /// What is to be decided.
    pub prompt: String,
    /// The ways to go on.
    pub options: Vec<ChoiceOption>,
    /// When it is asked for.
    pub created_at: Timestamp,
}

impl NewChoice {
    /// A choice between these options.
    pub fn new(
        room: RoomId,
        prompt: impl Into<String>,
        options: impl IntoIterator<Item = ChoiceOption>,
        created_at: Timestamp,
    ) -> Self {
        Self { room, prompt: prompt.into(), options: options.into_iter().collect(), created_at }
    }
}

/// A choice that waits. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Choice {
    /// The memory of its task.
    pub id: MemoryId,
    /// What is to be decided; empty when the task does not say.
    pub prompt: String,
    /// The ways to go on.
    pub options: Vec<ChoiceOption>,
    /// When it was asked for.
    pub created_at: Timestamp,
}

impl fmt::Debug for ChoiceOption {
    /// Payloads stay out of logs: only the size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChoiceOption({} bytes)", self.name.len() + self.description.len())
    }
}

impl fmt::Debug for NewChoice {
    /// Payloads stay out of logs: only the sizes show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewChoice({:?}, {} bytes, {} options)", self.room, self.prompt.len(), self.options.len())
    }
}

impl fmt::Debug for Choice {
    /// Payloads stay out of logs: only the sizes show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Choice({}, {} bytes, {} options)", self.id, self.prompt.len(), self.options.len())
    }
}

/// What the metadata of such a task say. Whoever submits a task to a runtime can say so as well.
#[derive(Serialize, Deserialize)]
struct Labels {
    tags: Vec<String>,
    #[serde(default)]
    prompt: String,
    options: Vec<ChoiceOption>,
}

/// The choices that wait in an agent's rooms; see [`Records::choices`].
#[derive(Debug, Clone, Copy)]
pub struct Choices<'a> {
    records: &'a Records,
}

impl Records {
    /// What waits for somebody's choice.
    pub fn choices(&self) -> Choices<'_> {
        Choices { records: self }
    }
}

impl Choices<'_> {
    /// Asks for a choice: a pending task that no runtime takes, since it waits for somebody. `InvalidInput` without options,
    /// or with two of the same name.
    pub async fn ask(&self, new: NewChoice) -> Result<Choice> {
        let mut names: Vec<_> = new.options.iter().map(|option| &option.name).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() || names.len() < new.options.len() {
            return Err(Error::invalid("a choice needs options, each with a name of its own"));
        }
        let space = task_space(self.records.agent(), &new.room)?;
        let labels = Labels { tags: vec![AWAITING_CHOICE.to_owned()], prompt: new.prompt, options: new.options };
        let text = serde_json::to_string(&labels)
            .map_err(|error| Error::invalid("the choice has no JSON form").with_source(error))?;
        let trigger = Trigger::from_value(&json!({ "choice": labels.prompt }))?;
        let memory = NewMemory::new(space, trigger, new.created_at).with_metadata(Metadata::parse(&text)?);
        let id = self.records.provider().store(memory).await?;
        Ok(Choice { id, prompt: labels.prompt, options: labels.options, created_at: new.created_at })
    }

    /// The open tasks of the audience's room that are tagged [`AWAITING_CHOICE`] and have options, oldest first; at most
    /// 1,000. Costs what is open, not what the ledger holds.
    pub async fn open(&self, audience: &Audience) -> Result<Vec<Choice>> {
        let tagged = Field::metadata(["tags"]).any(AWAITING_CHOICE).and(Field::metadata(["options"]).is_not_null());
        let query = MemoryQuery::builder()
            .selector(self.tasks(audience)?)
            .status(Status::Pending)
            .status(Status::Running)
            .filter(tagged)
            .order(Order::OldestFirst)
            .limit(MAX_LIMIT);
        self.records.find(query, read).await
    }

    /// Makes a choice of the audience's room, in the name of its entity, and ends its task. What was chosen, and by whom, is the
    /// context of the memory.
    ///
    /// `NotFound` when no such choice waits in the room, or no longer, `InvalidInput` for an option that it does not have, `Conflict` when
    /// somebody else has changed the task meanwhile.
    pub async fn choose(&self, audience: &Audience, id: MemoryId, option: &str) -> Result<()> {
        let memory = self.records.provider().get(id).await.map_err(without_erasure)?;
        let tasks = self.tasks(audience)?;
        let open = memory.filter(|memory| tasks.matches(memory.space_id.as_str()) && memory.status.is_open());
        let memory = open.ok_or_else(|| absent("choice"))?;
        let choice = read(&memory).ok_or_else(|| absent("choice"))?;
        if !choice.options.iter().any(|known| known.name == option) {
            return Err(Error::new(ErrorKind::InvalidInput, "the choice has no such option"));
        }
        let context = Context::from_value(&json!({ "chosen": option, "by": audience.entity }))?;
        let patch = MemoryPatch::new().set_context(context).with_status(Status::Completed);
        let chosen = self.records.provider().update(id, patch.if_revision(memory.revision)).await;
        chosen.map(drop).map_err(without_erasure)
    }

    fn tasks(&self, audience: &Audience) -> Result<SpaceSelector> {
        SpaceSelector::under(task_space(self.records.agent(), &audience.room)?)
    }
}

/// A choice that was erased is there no more; that it was erased is for operators.
fn without_erasure(error: Error) -> Error {
    if error.kind() == ErrorKind::Erased { absent("choice").with_outcome(error.outcome()) } else { error }
}

/// `None` when the task is no choice.
fn read(memory: &Memory) -> Option<Choice> {
    let labels: Labels = serde_json::from_str(memory.metadata.as_str()).ok()?;
    if !labels.tags.iter().any(|tag| tag == AWAITING_CHOICE) {
        return None;
    }
    Some(Choice { id: memory.id, prompt: labels.prompt, options: labels.options, created_at: memory.created_at })
}
