//! Calls that a manipulated model might make: P2 and P3.

use memory_core::plugin::Scope;
use memory_core::{ErrorKind, SpaceSelector, Spaces};
use serde_json::{Value, json};

use super::{ADD, NOTES, PRIVATE, QUERY, REMOVE, SECRET, World, call, call_raw, ids, scope};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{collection, kind, space};
use crate::golden;

chapter!("plugin":
    hostile_calls_change_nothing_and_learn_nothing ["P1", "P2", "P3", "F5"],
    arguments_narrow_every_scope_and_widen_none ["P2"],
    a_cursor_does_not_leave_its_scope ["P2", "Q6"],
    an_id_of_the_ledger_removes_nothing ["P3", "D6"],
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

/// Whatever the scope and the arguments are, everything that is found satisfies both.
async fn arguments_narrow_every_scope_and_widen_none(stage: Stage) -> CaseResult {
    let world = World::new(stage.open().await?).await?;
    let selectors = [
        Spaces::All,
        SpaceSelector::exact("mine-a")?.into(),
        SpaceSelector::under("mine")?.into(),
        SpaceSelector::under("mine-")?.into(),
        SpaceSelector::prefix("mine")?.into(),
        SpaceSelector::glob("*-[ab]")?.into(),
        SpaceSelector::regex("^(mine|other)-")?.into(),
        vec![SpaceSelector::exact("mine-b")?, SpaceSelector::under("other")?].into(),
    ];
    let asked = [None, Some("mine"), Some("mine-a"), Some("other"), Some("mine2-"), Some("nowhere")];
    for readable in selectors {
        let scope = Scope::new(readable.clone()).with_writable(space("mine-a")).with_collections([collection(NOTES)]);
        for space in asked {
            let under = space.map(SpaceSelector::under).transpose()?;
            let may_find = |id: &str| readable.matches(id) && under.as_ref().is_none_or(|under| under.matches(id));
            for (source, expected) in [
                (
                    "documents",
                    world
                        .before
                        .documents
                        .iter()
                        .filter(|it| it.collection.as_str() == NOTES)
                        .filter(|it| may_find(it.space_id.as_str()))
                        .map(|it| it.id.to_string())
                        .collect::<Vec<_>>(),
                ),
                (
                    "ledger",
                    world
                        .before
                        .memories
                        .iter()
                        .filter(|it| may_find(it.space_id.as_str()))
                        .map(|it| it.id.to_string())
                        .collect(),
                ),
            ] {
                let answer = call(&*world.plugin, &scope, QUERY, json!({"source": source, "space": space})).await?;
                let mut found = ids(&answer);
                found.sort_unstable();
                assert_eq!(found, expected, "{source} of {readable} under {space:?}");
            }
        }
        let everything = json!({"where": "id IS NOT NULL", "dryRun": true});
        let removed = call(&*world.plugin, &scope, REMOVE, everything).await?;
        let expected = if readable.matches("mine-a") { vec!["mine-1"] } else { vec![] };
        assert_eq!(ids(&removed), expected, "what may be removed is what may be read and written: {readable}");
    }
    let both = Scope::new(Spaces::All).with_collections([collection(PRIVATE), collection(NOTES)]);
    for (name, count) in [(None, 1), (Some(PRIVATE), 1), (Some(NOTES), 5)] {
        let answer = call(&*world.plugin, &both, QUERY, json!({ "collection": name })).await?;
        assert_eq!(ids(&answer).len(), count, "the first collection is meant when none is named");
    }
    world.check_and_mend(&[]).await?;
    Ok(())
}

/// A cursor belongs to its scope as it belongs to its query, and shows nothing of another.
async fn a_cursor_does_not_leave_its_scope(stage: Stage) -> CaseResult {
    let world = World::new(stage.open().await?).await?;
    let wide = Scope::new(Spaces::All).with_collections([collection(NOTES), collection(PRIVATE)]);
    let page = call(&*world.plugin, &wide, QUERY, json!({"limit": 1})).await?;
    let cursor = page["cursor"].as_str().expect("there is more");
    for (what, scope, arguments) in [
        ("another scope", scope(), json!({"limit": 1, "cursor": cursor})),
        ("another collection", wide.clone(), json!({"collection": PRIVATE, "cursor": cursor})),
        ("another source", wide.clone(), json!({"source": "ledger", "cursor": cursor})),
        ("another condition", wide.clone(), json!({"where": "id IS NOT NULL", "cursor": cursor})),
        ("another text", wide.clone(), json!({"text": "apple banana cherry", "cursor": cursor})),
        ("another space", wide.clone(), json!({"space": "mine", "cursor": cursor})),
        ("another order", wide, json!({"order": "oldest", "cursor": cursor})),
    ] {
        assert_eq!(kind(call(&*world.plugin, &scope, QUERY, arguments).await), Some(ErrorKind::InvalidInput), "{what}");
    }
    Ok(())
}

/// Neither the id of a memory nor a document of the same id reaches the ledger.
async fn an_id_of_the_ledger_removes_nothing(stage: Stage) -> CaseResult {
    let world = World::new(stage.open().await?).await?;
    let id = world.before.memories[0].id.to_string();
    let removed = call(&*world.plugin, &scope(), REMOVE, json!({ "ids": [id] })).await?;
    assert_eq!(removed, json!({"ids": [], "notFound": [id], "dryRun": false}));
    call(&*world.plugin, &scope(), ADD, json!({"id": id, "content": "not a memory"})).await?;
    assert_eq!(world.provider.get(world.before.memories[0].id).await?.as_ref(), Some(&world.before.memories[0]));
    let removed = call(&*world.plugin, &scope(), REMOVE, json!({ "ids": [id] })).await?;
    assert_eq!(ids(&removed), [id]);
    world.check_and_mend(&[]).await?;
    Ok(())
}
