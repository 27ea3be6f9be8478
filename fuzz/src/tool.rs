use std::collections::HashMap;
use std::sync::LazyLock;

use jsonschema::Validator;
use memory_cli::fuzzing::tools;
use memory_core::plugin::{Arguments, Scope};
use memory_core::{Actor, Collection, ErrorKind, Result, SpaceId, SpaceSelector};
use tokio::runtime::{Builder, Runtime};

use crate::PAYLOAD;
use crate::ledger::{SECRET, assert_untouched, ledger};

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
}

/// The answers that tools declare, by their names.
static ANSWERS: LazyLock<HashMap<String, Validator>> = LazyLock::new(|| {
    let provider = RUNTIME.with(|runtime| runtime.block_on(ledger())).expect("a ledger");
    let declared = |schema| jsonschema::validator_for(schema).expect("a schema");
    tools(&provider).iter().map(|tool| (tool.name().to_owned(), declared(tool.answer()))).collect()
});

/// A tool and its arguments, one call per line: it answers by its schema or refuses, and neither shows nor changes
/// anything outside of its scope.
pub fn tool(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let answers = &*ANSWERS;
    RUNTIME.with(|runtime| runtime.block_on(calls(text, answers))).expect("a ledger");
}

async fn calls(text: &str, answers: &HashMap<String, Validator>) -> Result<()> {
    let provider = ledger().await?;
    let tools = tools(&provider);
    let scope = scope()?;
    for (name, arguments) in text.lines().filter_map(|line| line.split_once(' ')).take(8) {
        let Some(tool) = tools.iter().find(|tool| tool.name() == name) else { continue };
        let Ok(arguments) = Arguments::parse(arguments) else { continue };
        let told = match tool.call(&scope, &arguments).await {
            Ok(answer) => {
                // The validator can't read some numbers.
                if let Ok(value) = answer.to_value::<serde_json::Value>() {
                    assert!(answers[name].is_valid(&value), "{name} declares another answer than {value}");
                }
                answer.as_str().to_owned()
            }
            Err(error) => {
                assert!(is_refusal(error.kind()), "{name} failed: {error:?}");
                assert!(!error.to_string().contains(PAYLOAD), "{name} quotes: {error}");
                error.to_string()
            }
        };
        assert!(text.contains(&SECRET[..4]) || !told.contains(SECRET), "{name} shows what lies outside: {told}");
    }
    assert_untouched(&*provider).await
}

fn scope() -> Result<Scope> {
    let scope = Scope::new(SpaceSelector::under("guild1")?).with_writable(SpaceId::parse("guild1-bot")?);
    Ok(scope.with_collections([Collection::parse("notes")?]).with_actor(Actor::parse("bot")?))
}

fn is_refusal(kind: ErrorKind) -> bool {
    use ErrorKind::{Conflict, InvalidInput, LimitExceeded, NotFound, TooLarge, Unauthorized, Unsupported};
    matches!(kind, InvalidInput | TooLarge | NotFound | Conflict | LimitExceeded | Unsupported | Unauthorized)
}
