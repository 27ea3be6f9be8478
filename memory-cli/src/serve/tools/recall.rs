//! `memory:recall`: recalls memories by a question, spaces and times.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::filter::Field;
use memory_core::plugin::{AnswerJson, Arguments, Executor, NamedArguments, Scope};
use memory_core::{Filter, Result, Status, Timestamp};
use serde_json::{Map, Value, json};

/// Recall from the ledger: a query with times and statuses beside its condition.
#[derive(Debug)]
pub(crate) struct RecallMemory {
    query: Arc<dyn Executor>,
    arguments: Value,
}

impl RecallMemory {
    pub(crate) fn new(query: Arc<dyn Executor>) -> Self {
        let of_query = |name: &str| query.arguments()["properties"][name].clone();
        let statuses = Status::ALL.map(Status::as_str);
        let arguments = json!({
            "type": "object",
            "properties": {
                "question": of_query("question"),
                "space": of_query("space"),
                "after": { "type": "integer", "description": "Only what happened after this, in milliseconds since 1970 UTC." },
                "before": { "type": "integer", "description": "Only what happened before this, in milliseconds since 1970 UTC." },
                "status": {
                    "type": "array",
                    "items": { "type": "string", "enum": statuses },
                    "description": "Only memories with these statuses."
                },
                "where": of_query("where"),
                "text": of_query("text"),
                "order": of_query("order"),
                "limit": of_query("limit"),
                "cursor": of_query("cursor")
            },
            "additionalProperties": false
        });
        Self { query, arguments }
    }
}

#[async_trait]
impl Executor for RecallMemory {
    fn name(&self) -> &str {
        "memory:recall"
    }

    fn description(&self) -> &str {
        "Recalls what happened from the ledger: ask a question in your own words, and the best answers come first. \
         Without a question the newest memories come first. Narrow it by space, time and status."
    }

    fn arguments(&self) -> &Value {
        &self.arguments
    }

    fn answer(&self) -> &Value {
        self.query.answer()
    }

    async fn call(&self, scope: &Scope, arguments: &Arguments) -> Result<AnswerJson> {
        let mut given = NamedArguments::read(arguments, &self.arguments)?;
        let mut conditions = Vec::new();
        if let Some(predicate) = given.text("where")? {
            conditions.push(Filter::parse(&predicate).map_err(|error| NamedArguments::about("where", &error))?);
        }
        if let Some(after) = time(&mut given, "after")? {
            conditions.push(Field::CreatedAt.gt(after));
        }
        if let Some(before) = time(&mut given, "before")? {
            conditions.push(Field::CreatedAt.lt(before));
        }
        if let Some(names) = given.texts("status")? {
            let statuses: Vec<_> = names.iter().map(|name| Status::parse(name)).collect::<Result<_>>()?;
            conditions.push(Field::Status.one_of(statuses));
        }
        let mut query = Map::from_iter([("source".to_owned(), json!("ledger"))]);
        if let Some(filter) = conditions.into_iter().reduce(Filter::and) {
            query.insert("where".to_owned(), json!(filter.to_string()));
        }
        for name in ["question", "space", "text", "order", "limit", "cursor"] {
            // The query validates the values.
            if let Some(value) = given.json(name) {
                query.insert(name.to_owned(), serde_json::from_str(value.get()).unwrap_or_default());
            }
        }
        self.query.call(scope, &Arguments::from_value(&query)?).await
    }
}

fn time(given: &mut NamedArguments, name: &str) -> Result<Option<i64>> {
    let time = given.integer(name)?.map(Timestamp::from_millis).transpose();
    Ok(time.map_err(|error| NamedArguments::about(name, &error))?.map(Timestamp::as_millis))
}
