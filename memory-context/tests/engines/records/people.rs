//! Members of conversations, and who knows whom.

use std::collections::BTreeSet;

use memory_context::records::{Audience, Entity, Records};
use memory_core::ErrorKind;

use super::{at, audience, entity, join};
use crate::stage::{CaseResult, Stage, cases};

cases! {
    an_entity_is_kept_once_and_changed_by_its_id,
    the_people_of_a_room_come_in_their_order,
    who_has_nothing_to_do_with_the_scope_is_not_shown,
    racing_interactions_are_all_counted,
    relationships_are_those_of_the_entity_in_both_directions,
    agents_do_not_see_each_others_people,
    an_entity_has_typed_parts,
}

async fn keep(records: &Records, names: &[&str]) {
    for name in names {
        records.entities().ensure(&Entity::new(entity(name), name.to_uppercase())).await.expect("an entity");
    }
}

async fn an_entity_is_kept_once_and_changed_by_its_id(stage: Stage) -> CaseResult {
    let (records, elsewhere) = (stage.records("a"), stage.records_elsewhere("a"));
    let ana = Entity { metadata: r#"{"city":"Lima"}"#.parse()?, ..Entity::new(entity("ana"), "Ana") };
    assert!(records.entities().ensure(&ana).await?);
    assert!(!elsewhere.entities().ensure(&Entity::new(entity("ana"), "Anna")).await?);
    assert_eq!(elsewhere.entities().get(&audience("r", "ana"), &entity("ana")).await?, Some(ana));
    let changed = records.entities().update(&entity("ana"), |ana| ana.names.push("Anita".into())).await?;
    assert_eq!(changed.names, ["Ana", "Anita"]);
    assert_eq!(elsewhere.entities().get(&audience("r", "ana"), &entity("ana")).await?, Some(changed));
    let unknown = records.entities().update(&entity("bob"), |_| ()).await.expect_err("unknown");
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    Ok(())
}

async fn the_people_of_a_room_come_in_their_order(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    keep(&records, &["ana", "bob", "eve"]).await;
    join(&records, "r", &["eve", "stranger", "ana"]).await;
    join(&records, "s", &["bob"]).await;
    let people = records.entities().in_room(&audience("r", "ana")).await?;
    assert_eq!(people.iter().map(|one| one.names[0].as_str()).collect::<Vec<_>>(), ["EVE", "ANA"]);
    assert!(records.entities().in_room(&audience("t", "ana")).await?.is_empty());
    Ok(())
}

async fn who_has_nothing_to_do_with_the_scope_is_not_shown(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let agent = records.agent().as_str().to_owned();
    keep(&records, &["ana", "bob", "eve", "kim", "lea", &agent]).await;
    join(&records, "r", &["ana", "bob"]).await;
    join(&records, "s", &["eve", "ana"]).await;
    records.relationships().interact(&entity("kim"), &entity("ana"), [], at(1)).await?;
    let shown = async |audience: Audience| -> memory_core::Result<Vec<String>> {
        let asked = ["ana", "bob", "eve", "kim", "lea", "unknown", &agent].map(entity);
        let found = records.entities().named(&audience, asked).await?;
        Ok(found.into_keys().map(String::from).filter(|id| *id != agent).collect())
    };
    assert_eq!(shown(audience("r", "ana")).await?, ["ana", "bob", "kim"]);
    assert_eq!(shown(audience("r", "bob")).await?, ["ana", "bob"], "kim is a friend of ana's");
    assert_eq!(shown(audience("s", "ana")).await?, ["ana", "eve", "kim"]);
    assert_eq!(shown(audience("t", "lea")).await?, ["lea"]);
    assert!(records.entities().get(&audience("t", "lea"), &records.agent().entity()).await?.is_some());
    Ok(())
}

async fn racing_interactions_are_all_counted(stage: Stage) -> CaseResult {
    let (records, elsewhere) = (stage.records("a"), stage.records_elsewhere("a"));
    let interactions = (0..10_i64).map(|number| {
        let handle = if number % 2 == 0 { &records } else { &elsewhere };
        async move {
            let tags = [format!("tag{}", number % 3)];
            handle.relationships().interact(&entity("ana"), &entity("bob"), tags, at(number)).await
        }
    });
    futures::future::try_join_all(interactions).await?;
    let of_bob = records.relationships().of(&audience("r", "bob")).await?;
    let [only] = &of_bob[..] else { panic!("{of_bob:?}") };
    assert_eq!((only.interactions, only.last_interaction_at), (10, Some(at(9))));
    assert_eq!(only.tags, BTreeSet::from(["tag0", "tag1", "tag2"].map(str::to_owned)));
    Ok(())
}

async fn relationships_are_those_of_the_entity_in_both_directions(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let of = async |audience: Audience| -> memory_core::Result<Vec<String>> {
        let found = records.relationships().of(&audience).await?;
        Ok(found.iter().map(|one| format!("{} {} {}", one.source, one.target, one.interactions)).collect())
    };
    assert_eq!(of(audience("r", "ana")).await?, [""; 0]);
    for (source, target, times) in [("ana", "bob", 1), ("bob", "ana", 3), ("eve", "ana", 2), ("eve", "bob", 9)] {
        for _ in 0..times {
            records.relationships().interact(&entity(source), &entity(target), [], at(1)).await?;
        }
    }
    records.relationships().interact(&entity("ana"), &entity("ana"), [], at(1)).await?;
    assert_eq!(of(audience("r", "ana")).await?, ["bob ana 3", "eve ana 2", "ana ana 1", "ana bob 1"]);
    assert_eq!(of(audience("r", "bob")).await?, ["eve bob 9", "bob ana 3", "ana bob 1"]);
    let changed = records
        .relationships()
        .change(&entity("ana"), &entity("bob"), |one| {
            one.tags.insert("friends".into());
            one.source = entity("eve");
        })
        .await?;
    assert_eq!((changed.source.as_str(), changed.interactions), ("ana", 1));
    Ok(())
}

async fn agents_do_not_see_each_others_people(stage: Stage) -> CaseResult {
    let (one, other) = (stage.records("a"), stage.records("b"));
    keep(&one, &["ana"]).await;
    one.relationships().interact(&entity("ana"), &entity("bob"), [], at(1)).await?;
    assert_eq!(other.entities().get(&audience("r", "ana"), &entity("ana")).await?, None);
    assert!(other.relationships().of(&audience("r", "ana")).await?.is_empty());
    assert_eq!(one.relationships().of(&audience("r", "ana")).await?.len(), 1);
    Ok(())
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Preferences {
    language: String,
    times: Vec<u8>,
}

async fn an_entity_has_typed_parts(stage: Stage) -> CaseResult {
    let (records, elsewhere) = (stage.records("a"), stage.records_elsewhere("a"));
    join(&records, "r", &["ana"]).await;
    let (ana, in_room) = (entity("ana"), audience("r", "ana"));
    let spanish = Preferences { language: "es".into(), times: vec![9, 18] };
    assert_eq!(records.components().get::<Preferences>(&in_room, &ana, "preferences").await?, None);
    records.components().put(&ana, "preferences", &spanish).await?;
    records.components().put(&ana, "level", &7).await?;
    assert_eq!(elsewhere.components().get(&in_room, &ana, "preferences").await?, Some(spanish));
    let english = Preferences { language: "en".into(), times: vec![] };
    elsewhere.components().put(&ana, "preferences", &english).await?;
    assert_eq!(records.components().get(&in_room, &ana, "preferences").await?, Some(english));
    assert_eq!(records.components().get(&in_room, &ana, "level").await?, Some(7));
    let wrong = records.components().get::<Preferences>(&in_room, &ana, "level").await.expect_err("a number");
    assert_eq!(wrong.kind(), ErrorKind::Corrupt);
    // Entities without a relation to her see nothing, and neither does another agent.
    assert_eq!(records.components().get::<u8>(&audience("s", "bob"), &ana, "level").await?, None);
    assert_eq!(records.components().get::<u8>(&audience("r", "bob"), &ana, "level").await?, Some(7));
    assert_eq!(stage.records("b").components().get::<u8>(&in_room, &ana, "level").await?, None);
    for (kind, error) in [(String::new(), ErrorKind::InvalidInput), ("x".repeat(65), ErrorKind::TooLarge)] {
        assert_eq!(records.components().put(&ana, &kind, &1).await.expect_err("refused").kind(), error);
    }
    assert!(records.components().remove(&ana, "level").await? && !elsewhere.components().remove(&ana, "level").await?);
    assert_eq!(records.components().get::<u8>(&in_room, &ana, "level").await?, None);
    Ok(())
}
