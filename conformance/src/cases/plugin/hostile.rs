//! Calls that a manipulated model might make: P2 and P3.

use serde_json::Value;

use super::{REMOVE, SECRET, World, call_raw, ids, scope};
use crate::case::{CaseResult, Stage, chapter};
use crate::golden;

chapter!("plugin":
    hostile_calls_change_nothing_and_learn_nothing ["P1", "P2", "P3", "F5"],
);

/// Every line of the table of hostile calls: records outside of the scope stay unchanged, and unknown.
async fn hostile_calls_change_nothing_and_learn_nothing(stage: Stage) -> CaseResult {
    let world = World::new(stage.open().await?).await?;
    for line in golden::hostile_calls() {
        let outcome = call_raw(&*world.plugin, &scope(), &line.verb, line.arguments.get()).await;
        let (said, mut found) = match outcome {
            Ok(answer) => {
                let value: Value = serde_json::from_str(&answer)?;
                let found: Vec<_> = ids(&value).into_iter().map(str::to_owned).collect();
                (value["records"].to_string(), Ok(found))
            }
            Err(error) => (format!("{error} {error:?}"), Err(format!("{:?}", error.kind()))),
        };
        found.iter_mut().for_each(|ids| ids.sort());
        let mut finds = line.finds.clone();
        finds.sort();
        assert_eq!(found, line.error.clone().map_or(Ok(finds), Err), "{}: {said}", line.id);
        assert!(!said.contains(SECRET), "{}: {said}", line.id);
        let is_removal = line.verb == REMOVE && !line.arguments.get().contains("dryRun");
        let gone: Vec<_> = line.finds.iter().map(String::as_str).filter(|_| is_removal).collect();
        world.check_and_mend(&gone).await.map_err(|error| format!("{}: {error:?}", line.id))?;
    }
    Ok(())
}
