//! `memory:add_document` and `memory:remove_document`: P6 and P7.

use std::sync::Arc;

use futures::future::join_all;
use memory_core::ErrorKind;
use serde_json::json;

use super::{ADD, NOTES, QUERY, REMOVE, World, call, ids, scope, wide_scope};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{collection, document_id, kind, walk_documents};

chapter!("plugin":
    added_documents_are_found ["P6", "W1"],
    repeated_additions_are_one_document ["P6"],
    racing_additions_of_one_id_leave_one_document ["P6", "D1"],
    an_id_in_use_elsewhere_is_a_conflict ["P6", "P2"],
    removal_takes_what_satisfies_everything ["P7"],
    removal_over_max_takes_nothing ["P7", "D4"],
    dry_run_answers_what_removal_would ["P7"],
);

/// A document without an id gets one; its content, including unusual keys, is found by any handle.
async fn added_documents_are_found(stage: Stage) -> CaseResult {
    let (plugin, other) = (stage.open().await?.plugin(), stage.open().await?.plugin());
    let odd = json!({"$set": 1, "a.b": {"": null}, "__proto__": [true], "'": "\"", "{tag}": "é"});
    let added = call(&*plugin, &scope(), ADD, json!({"content": "apple", "metadata": odd})).await?;
    let second = call(&*plugin, &scope(), ADD, json!({"content": "apple", "space": "mine-a/deep:er"})).await?;
    assert_ne!(added["id"], second["id"], "without an id each is a document of its own");
    assert_eq!(added["spaceId"], "mine-a");
    assert_eq!(second["spaceId"], "mine-a/deep:er");
    let found =
        call(&*other, &scope(), QUERY, json!({"text": "apple", "where": "metadata.\"a.b\" IS NOT NULL"})).await?;
    assert_eq!(ids(&found), [added["id"].as_str().expect("an id")]);
    assert_eq!(found["records"][0]["metadata"], odd);
    Ok(())
}

/// The same call twice is one document; under the same id, no other text replaces the first.
async fn repeated_additions_are_one_document(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let plugin = Arc::clone(&provider).plugin();
    let arguments = json!({"id": "cat", "content": "Ana has a cat", "metadata": {"n": 1}});
    for _ in 0..3 {
        let added = call(&*plugin, &scope(), ADD, arguments.clone()).await?;
        assert_eq!(added, json!({"id": "cat", "spaceId": "mine-a"}));
    }
    for (name, value) in [("content", json!("Ana has a dog")), ("metadata", json!({})), ("space", json!("mine-a-pets"))]
    {
        let mut other = arguments.clone();
        other[name] = value;
        let refused = call(&*plugin, &scope(), ADD, other).await;
        assert_eq!(kind(refused), Some(ErrorKind::Conflict), "another {name}");
    }
    let documents = walk_documents(&*provider.documents(), NOTES, |query| query.all()).await?;
    assert_eq!((documents.len(), documents[0].revision.get()), (1, 1));
    assert_eq!((documents[0].content.as_str(), documents[0].metadata.as_str()), ("Ana has a cat", r#"{"n":1}"#));
    Ok(())
}

/// Of racing calls under one id equal ones all succeed, of different ones exactly one does.
async fn racing_additions_of_one_id_leave_one_document(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let plugins = [Arc::clone(&provider).plugin(), stage.open().await?.plugin()];
    let scope = scope();
    let add = |id: &'static str, place: usize, content: String| {
        call(&*plugins[place % 2], &scope, ADD, json!({"id": id, "content": content}))
    };
    for added in join_all((0..16).map(|place| add("same", place, "same".to_owned()))).await {
        added?;
    }
    let (mut won, mut lost) = (0, 0);
    for added in join_all((0..16).map(|place| add("other", place, format!("text {place}")))).await {
        match added {
            Ok(_) => won += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                lost += 1;
            }
        }
    }
    assert_eq!((won, lost), (1, 15));
    let documents = walk_documents(&*provider.documents(), NOTES, |query| query.all()).await?;
    assert!(documents.len() == 2 && documents.iter().all(|document| document.revision.get() == 1));
    Ok(())
}

/// An id that another tenant's document has is refused, and the document stays as it is.
async fn an_id_in_use_elsewhere_is_a_conflict(stage: Stage) -> CaseResult {
    let world = World::new(stage.open().await?).await?;
    let equal = json!({"id": "xyzzy-1", "content": "apple xyzzy", "metadata": {"topic": "xyzzy"}});
    for arguments in
        [json!({"id": "xyzzy-1", "content": "x"}), equal, json!({"id": "mine-3", "content": "cherry cake"})]
    {
        let refused = call(&*world.plugin, &scope(), ADD, arguments).await.expect_err("it is in use");
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(refused.message().starts_with("id: "), "{refused}");
    }
    world.check_and_mend(&[]).await?;
    Ok(())
}

/// Ids, condition, text and space of one call must all hold, and ids that do not exist are reported.
async fn removal_takes_what_satisfies_everything(stage: Stage) -> CaseResult {
    let plugin = stage.open().await?.plugin();
    for (id, content, place) in
        [("a", "red apple", "x"), ("b", "red brick", "x"), ("c", "blue sky", "x"), ("d", "red", "y")]
    {
        let arguments = json!({"id": id, "content": content, "space": format!("mine-{place}")});
        call(&*plugin, &wide_scope(), ADD, arguments).await?;
    }
    let all = json!({"ids": ["d", "b", "zz", "c", "zz"], "text": "Red!", "where": "id <> 'a'", "space": "mine-x"});
    let removed = call(&*plugin, &wide_scope(), REMOVE, all).await?;
    assert_eq!(removed, json!({"ids": ["b"], "notFound": ["c", "d", "zz"], "dryRun": false}));
    let removed = call(&*plugin, &wide_scope(), REMOVE, json!({"text": "red", "where": "spaceId = 'mine-x'"})).await?;
    assert_eq!(removed, json!({"ids": ["a"], "dryRun": false}));
    assert_eq!(ids(&call(&*plugin, &wide_scope(), QUERY, json!({"order": "oldest"})).await?), ["c", "d"]);
    Ok(())
}

/// More than `max`, which is ten unless given, removes nothing and says how to continue; the maximum is a hundred.
async fn removal_over_max_takes_nothing(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let plugin = Arc::clone(&provider).plugin();
    for place in 0..101 {
        call(&*plugin, &scope(), ADD, json!({"id": format!("{place:03}"), "content": "apple"})).await?;
    }
    let count =
        async || Ok::<_, memory_core::Error>(walk_documents(&*provider.documents(), NOTES, |q| q.all()).await?.len());
    for arguments in [
        json!({"text": "apple"}),
        json!({"where": "id < '050'", "max": 49}),
        json!({"where": "content = 'apple'", "max": 100}),
        json!({"ids": ["000", "001"], "max": 1}),
    ] {
        for dry_run in [true, false] {
            let mut arguments = arguments.clone();
            arguments["dryRun"] = json!(dry_run);
            let refused = call(&*plugin, &scope(), REMOVE, arguments.clone()).await.expect_err("over the max");
            assert_eq!(refused.kind(), ErrorKind::LimitExceeded, "{arguments}");
            assert!(refused.message().contains("max"), "the sentence says how to go on: {refused}");
        }
    }
    assert_eq!(count().await?, 101);
    let removed = call(&*plugin, &scope(), REMOVE, json!({"where": "id < '050'", "max": 50})).await?;
    assert_eq!(ids(&removed).len(), 50, "exactly max is fine");
    assert_eq!(count().await?, 51);
    Ok(())
}

/// `dryRun` reports the documents that would be removed, with every kind of argument, and leaves everything where it
/// is.
async fn dry_run_answers_what_removal_would(stage: Stage) -> CaseResult {
    let world = World::new(stage.open().await?).await?;
    for arguments in [
        json!({"ids": ["mine-1", "mine-2", "xyzzy-1"]}),
        json!({"where": "metadata.topic = 'fruit'"}),
        json!({"text": "apple cherry"}),
        json!({"ids": ["mine-1"], "text": "pie", "where": "id IS NOT NULL", "space": "mine-a"}),
    ] {
        let mut dry = arguments.clone();
        dry["dryRun"] = json!(true);
        let mut dry = call(&*world.plugin, &scope(), REMOVE, dry).await?;
        assert_eq!(dry["dryRun"], true);
        world.check_and_mend(&[]).await?;
        let removed = call(&*world.plugin, &scope(), REMOVE, arguments.clone()).await?;
        dry["dryRun"] = json!(false);
        assert_eq!(dry, removed, "{arguments}");
        assert_eq!(ids(&removed), ["mine-1"]);
        assert_eq!(world.provider.documents().get(&collection(NOTES), &document_id("mine-1")).await?, None);
        world.check_and_mend(&["mine-1"]).await?;
    }
    Ok(())
}
