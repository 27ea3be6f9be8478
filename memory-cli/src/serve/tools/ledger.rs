//! `memory:store` and `memory:update`: the ledger, for the runtime of an agent.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::plugin::{AnswerJson, Arguments, Executor, NamedArguments, Scope};
use memory_core::{
    Clock as _, Context, Error, ErrorKind, IdempotencyKey, MemoryId, MemoryPatch, MemoryProvider, Metadata, NewMemory,
    Result, Revision, Status, SystemClock, Timestamp, Trigger,
};
use serde_json::{Value, json};

use crate::serve::access::{Wanted, check_change, check_task, without_erasure};

/// A verb that writes the ledger.
#[derive(Debug)]
pub(crate) struct WriteLedger {
    provider: Arc<dyn MemoryProvider>,
    verb: Verb,
    arguments: Value,
    answer: Value,
}

#[derive(Debug, Clone, Copy)]
enum Verb {
    Store,
    Update,
}

impl WriteLedger {
    /// `memory:store`: appends a memory.
    pub(crate) fn store(provider: Arc<dyn MemoryProvider>) -> Self {
        let arguments = json!({
            "type": "object",
            "properties": {
                "space": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Where it happened: the space that you may write (the default), or one below it."
                },
                "trigger": { "description": "What happened: any JSON. Write numbers beyond 64 bits as strings." },
                "context": { "description": "What came of it, if that is known already: any JSON." },
                "createdAt": { "type": "integer", "description": "When it happened, in milliseconds since 1970 UTC; now by default." },
                "metadata": { "type": "object", "description": "Names and values to find it by later." },
                "status": { "type": "string", "enum": Status::ALL.map(Status::as_str), "description": "pending by default." },
                "idempotencyKey": {
                    "type": "string",
                    "minLength": 1,
                    "description": "A second call with the same key, trigger and space stores nothing and returns \
                                    the first id; another trigger or space is refused."
                }
            },
            "required": ["trigger"],
            "additionalProperties": false
        });
        let answer = json!({ "type": "object", "properties": { "id": { "type": "string" } }, "required": ["id"] });
        Self { provider, verb: Verb::Store, arguments, answer }
    }

    /// `memory:update`: changes the context, the metadata or the status of a memory.
    pub(crate) fn update(provider: Arc<dyn MemoryProvider>) -> Self {
        let arguments = json!({
            "type": "object",
            "properties": {
                "id": { "type": "string", "description": "The id of the memory." },
                "context": { "description": "What came of it: any JSON but null, which leaves it as it is." },
                "clearContext": { "type": "boolean", "description": "Removes the context." },
                "mergeMetadata": { "type": "object", "description": "Merged into the metadata (RFC 7396)." },
                "replaceMetadata": { "type": "object", "description": "Replaces the metadata." },
                "status": { "type": "string", "enum": Status::ALL.map(Status::as_str), "description": "The new status." },
                "ifRevision": { "type": "integer", "minimum": 1, "description": "Only if the memory is at this revision." }
            },
            "required": ["id"],
            "additionalProperties": false
        });
        let answer = json!({
            "type": "object",
            "properties": { "revision": { "type": "integer" }, "updatedAt": { "type": "integer" } },
            "required": ["revision"]
        });
        Self { provider, verb: Verb::Update, arguments, answer }
    }
}

#[async_trait]
impl Executor for WriteLedger {
    fn name(&self) -> &str {
        match self.verb {
            Verb::Store => "memory:store",
            Verb::Update => "memory:update",
        }
    }

    fn description(&self) -> &str {
        match self.verb {
            Verb::Store => {
                "Appends a memory to the ledger: for the runtime of an agent, when a task begins or an event was seen."
            }
            Verb::Update => {
                "Changes the context, the metadata or the status of a memory in the ledger: for the runtime of an agent, as a \
                 task goes on."
            }
        }
    }

    fn arguments(&self) -> &Value {
        &self.arguments
    }

    fn answer(&self) -> &Value {
        &self.answer
    }

    async fn call(&self, scope: &Scope, arguments: &Arguments) -> Result<AnswerJson> {
        let given = NamedArguments::read(arguments, &self.arguments)?;
        match self.verb {
            Verb::Store => store(&*self.provider, scope, given).await,
            Verb::Update => update(&*self.provider, scope, given).await,
        }
    }
}

async fn store(provider: &dyn MemoryProvider, scope: &Scope, mut given: NamedArguments) -> Result<AnswerJson> {
    let space = given.text("space")?;
    let space = scope.space_to_write(space.as_deref())?;
    let trigger = given.json("trigger").ok_or_else(|| Error::invalid("trigger: is missing"))?;
    let trigger = Trigger::parse(trigger.get()).map_err(|error| NamedArguments::about("trigger", &error))?;
    let created_at = given.integer("createdAt")?.map(Timestamp::from_millis).transpose();
    let created_at = created_at.map_err(|error| NamedArguments::about("createdAt", &error))?;
    let mut memory = NewMemory::new(space, trigger, created_at.unwrap_or_else(|| SystemClock.now()));
    let context = given.json("context").map(|json| Context::parse(json.get())).transpose();
    memory.context = context.map_err(|error| NamedArguments::about("context", &error))?;
    memory.metadata = metadata(&mut given, "metadata")?.unwrap_or_default();
    check_task(&memory.metadata)?;
    memory.status = status(&mut given)?.unwrap_or_default();
    let key = given.text("idempotencyKey")?.map(IdempotencyKey::parse).transpose();
    memory.idempotency_key = key.map_err(|error| NamedArguments::about("idempotencyKey", &error))?;
    // For a model, an erased memory does not exist.
    let id = provider.store(memory).await.map_err(|error| without_erasure(error, Wanted::Key))?;
    AnswerJson::from_value(&json!({ "id": id }))
}

async fn update(provider: &dyn MemoryProvider, scope: &Scope, mut given: NamedArguments) -> Result<AnswerJson> {
    let id = given.text("id")?.ok_or_else(|| Error::invalid("id: is missing"))?;
    let id = MemoryId::parse(&id).map_err(|error| NamedArguments::about("id", &error))?;
    let mut patch = MemoryPatch::new();
    match (given.flag("clearContext")?, given.json("context")) {
        (true, Some(_)) => return Err(Error::invalid("context: can't be combined with clearContext; leave one out")),
        (true, None) => patch = patch.clear_context(),
        (false, Some(json)) => {
            let context = Context::parse(json.get()).map_err(|error| NamedArguments::about("context", &error))?;
            patch = patch.set_context(context);
        }
        (false, None) => {}
    }
    match (metadata(&mut given, "mergeMetadata")?, metadata(&mut given, "replaceMetadata")?) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid("mergeMetadata: can't be combined with replaceMetadata; leave one out"));
        }
        (Some(merged), None) => patch = patch.merge_metadata(merged),
        (None, Some(replaced)) => patch = patch.replace_metadata(replaced),
        (None, None) => {}
    }
    patch.status = status(&mut given)?;
    patch.actor = scope.actor().cloned();
    let revision = given.integer("ifRevision")?.map(|number| Revision::new(number.try_into().unwrap_or(0)));
    patch.if_revision = revision.transpose().map_err(|error| NamedArguments::about("ifRevision", &error))?;
    // The space of a memory never changes, and a memory never becomes a task, so this check still holds at the update.
    let memory = provider.get(id).await.map_err(of_id)?;
    let memory = memory.filter(|memory| scope.readable().matches(memory.space_id.as_str()));
    let memory = memory.ok_or_else(|| of_id(Error::not_found()))?;
    scope.space_to_write(Some(memory.space_id.as_str()))?;
    check_change(&memory, &patch)?;
    AnswerJson::from_value(&provider.update(id, patch).await.map_err(of_id)?)
}

/// The error of a call that names a memory by its id. For a model, an erased memory does not exist.
fn of_id(error: Error) -> Error {
    let error = without_erasure(error, Wanted::Itself);
    match error.kind() {
        ErrorKind::NotFound => error.with_message("id: no memory has it"),
        _ => error,
    }
}

fn metadata(given: &mut NamedArguments, name: &str) -> Result<Option<Metadata>> {
    let metadata = given.json(name).map(|json| Metadata::parse(json.get())).transpose();
    metadata.map_err(|error| NamedArguments::about(name, &error))
}

fn status(given: &mut NamedArguments) -> Result<Option<Status>> {
    let status = given.text("status")?.map(|name| Status::parse(&name)).transpose();
    status.map_err(|error| NamedArguments::about("status", &error))
}
