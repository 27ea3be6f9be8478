//! Choices: tasks that wait until somebody picks an option.

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

/// An option of a choice.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChoiceOption {
    /// The name by which the option is picked; unique within its choice.
    pub name: String,
    /// What picking the option means; empty by default.
    #[serde(default)]
    pub description: String,
}

/// A choice to be asked for.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewChoice {
    /// The room in which the choice is asked for.
    pub room: RoomId,
    /// The question to decide.
    pub prompt: String,
    /// The options, in the order in which they are shown.
    pub options: Vec<ChoiceOption>,
    /// The time at which the choice is asked for.
    pub created_at: Timestamp,
}

impl NewChoice {
    /// Makes a choice between these options.
    pub fn new(
        room: RoomId,
        prompt: impl Into<String>,
        options: impl IntoIterator<Item = ChoiceOption>,
        created_at: Timestamp,
    ) -> Self {
        Self { room, prompt: prompt.into(), options: options.into_iter().collect(), created_at }
    }
}

/// An open choice. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Choice {
    /// The id of the memory that holds its task.
    pub id: MemoryId,
    /// The question to decide; empty if the task has none.
    pub prompt: String,
    /// The options, in the order in which they are shown.
    pub options: Vec<ChoiceOption>,
    /// The time at which the choice was asked for.
    pub created_at: Timestamp,
}

impl fmt::Debug for ChoiceOption {
    /// Shows only the size, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChoiceOption({} bytes)", self.name.len() + self.description.len())
    }
}

impl fmt::Debug for NewChoice {
    /// Shows only the sizes, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewChoice({:?}, {} bytes, {} options)", self.room, self.prompt.len(), self.options.len())
    }
}

impl fmt::Debug for Choice {
    /// Shows only the sizes, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Choice({}, {} bytes, {} options)", self.id, self.prompt.len(), self.options.len())
    }
}

/// The metadata that make a task a choice. A task that is submitted to a runtime can have them, too.
#[derive(Serialize, Deserialize)]
struct Labels {
    tags: Vec<String>,
    #[serde(default)]
    prompt: String,
    options: Vec<ChoiceOption>,
}

/// The open choices in an agent's rooms; see [`Records::choices`].
#[derive(Debug, Clone, Copy)]
pub struct Choices<'a> {
    records: &'a Records,
}

impl Records {
    /// The open choices in the agent's rooms.
    pub fn choices(&self) -> Choices<'_> {
        Choices { records: self }
    }
}

impl Choices<'_> {
    /// Asks for a choice: stores a pending task, which no runtime claims. Fails with `InvalidInput` if there are no options, or if two have
    /// the same name.
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

    /// Returns the open tasks of the audience's room that are tagged [`AWAITING_CHOICE`] and have options, oldest first; at most 1,000. The
    /// cost grows with the open tasks, not with the ledger.
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

    /// Picks an option of a choice in the audience's room, on behalf of the audience's entity, and completes the task. The option and the
    /// entity are stored as the context of the memory.
    ///
    /// Fails with `NotFound` if the choice is not open in this room, with `InvalidInput` if it has no such option, and with `Conflict` if
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

/// Turns `Erased` into `NotFound`, since only operators may learn of an erasure.
fn without_erasure(error: Error) -> Error {
    if error.kind() == ErrorKind::Erased { absent("choice").with_outcome(error.outcome()) } else { error }
}

/// Reads the choice of a memory. `None` if the memory is not a choice.
fn read(memory: &Memory) -> Option<Choice> {
    let labels: Labels = serde_json::from_str(memory.metadata.as_str()).ok()?;
    if !labels.tags.iter().any(|tag| tag == AWAITING_CHOICE) {
        return None;
    }
    Some(Choice { id: memory.id, prompt: labels.prompt, options: labels.options, created_at: memory.created_at })
}
