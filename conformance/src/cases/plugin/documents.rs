//! `memory:add_document` and `memory:remove_document`: P6 and P7.

use std::sync::Arc;

use futures::future::join_all;
use memory_core::ErrorKind;
use serde_json::json;

use super::{ADD, REMOVE, World, call, ids, scope};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, collection, document_id, kind, walk_documents};

chapter!("plugin":
    repeated_additions_are_one_document ["P6"],
    racing_additions_of_one_id_leave_one_document ["P6", "D1"],
    dry_run_answers_what_removal_would ["P7"],
);

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

/// If concurrent calls use one id, equal ones all succeed, and of different ones exactly one does.
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
