//! The worlds that rooms belong to, their owners, and their settings.

use std::collections::BTreeMap;

use memory_context::records::{
    Audience, ChannelType, Records, Room, Secret, SettingDefinition, SettingValue, World, WorldRole,
};
use memory_core::ErrorKind;

use super::{audience, entity, room, world};
use crate::stage::{CaseResult, Stage, cases};

cases! {
    a_world_is_that_of_the_room,
    owned_worlds_are_those_of_the_entity_now,
    a_setting_is_defined_then_set_and_shown,
    a_secret_is_told_to_the_call_that_needs_it_alone,
    what_was_secret_is_never_shown,
    settings_of_another_world_are_refused,
    agents_do_not_see_each_others_worlds,
}

/// A world with an owner and a room.
async fn found(records: &Records, id: &str, owner: &str, of_room: &str) {
    let new = World { name: Some(id.to_uppercase()), owner: Some(entity(owner)), ..World::new(world(id)) };
    records.worlds().ensure(&new).await.expect("a world");
    let room = Room { world: Some(world(id)), ..Room::new(room(of_room), ChannelType::Group) };
    records.rooms().ensure(&room).await.expect("a room");
}

fn definition(key: &str, is_secret: bool) -> SettingDefinition {
    SettingDefinition { key: key.into(), name: key.into(), description: String::new(), is_required: true, is_secret }
}

async fn owned(records: &Records, audience: Audience) -> Vec<String> {
    let worlds = records.worlds().owned(&audience).await.expect("worlds");
    worlds.into_iter().map(|world| world.id.to_string()).collect()
}

async fn a_world_is_that_of_the_room(stage: Stage) -> CaseResult {
    let (records, elsewhere) = (stage.records("a"), stage.records_elsewhere("a"));
    found(&records, "w", "ana", "r").await;
    found(&records, "v", "bob", "s").await;
    let changed = elsewhere
        .worlds()
        .update(&world("w"), |world| world.roles = BTreeMap::from([(entity("bob"), WorldRole::Admin)]))
        .await?;
    assert_eq!(records.worlds().get(&audience("r", "eve")).await?, Some(changed.clone()));
    assert_eq!((changed.owner, changed.name.as_deref()), (Some(entity("ana")), Some("W")));
    assert_eq!(records.worlds().get(&audience("t", "ana")).await?, None);
    let homeless = Room::new(room("dm"), ChannelType::Dm);
    records.rooms().ensure(&homeless).await?;
    assert_eq!(records.worlds().get(&audience("dm", "ana")).await?, None);
    let unknown = records.worlds().update(&world("u"), |_| ()).await.expect_err("unknown");
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    assert!(!records.worlds().ensure(&World::new(world("w"))).await?, "known, and left alone");
    Ok(())
}

async fn owned_worlds_are_those_of_the_entity_now(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    found(&records, "w", "ana", "r").await;
    found(&records, "v", "ana", "s").await;
    found(&records, "u", "bob", "t").await;
    assert_eq!(owned(&records, audience("dm", "ana")).await, ["w", "v"]);
    records.worlds().update(&world("w"), |world| world.owner = Some(entity("bob"))).await?;
    records.worlds().update(&world("u"), |world| world.owner = None).await?;
    assert_eq!(owned(&records, audience("dm", "ana")).await, ["v"]);
    assert_eq!(owned(&records, audience("dm", "bob")).await, ["w"]);
    assert_eq!(owned(&records, audience("dm", "eve")).await, [""; 0]);
    Ok(())
}

async fn a_setting_is_defined_then_set_and_shown(stage: Stage) -> CaseResult {
    let (records, elsewhere) = (stage.records("a"), stage.records_elsewhere("a"));
    found(&records, "w", "ana", "r").await;
    let settings = records.settings();
    let undefined = settings.set(&world("w"), "greeting", Some(Secret::new("hi"))).await.expect_err("undefined");
    assert_eq!(undefined.kind(), ErrorKind::NotFound);
    settings.define(&world("w"), definition("greeting", false)).await?;
    settings.define(&world("w"), definition("channel", false)).await?;
    settings.set(&world("w"), "channel", Some(Secret::new("general"))).await?;
    settings.define(&world("w"), SettingDefinition { is_required: false, ..definition("channel", false) }).await?;
    let shown = elsewhere.settings().of(&audience("r", "bob"), &world("w")).await?;
    let shown: Vec<_> = shown.iter().map(|it| (it.definition.key.as_str(), it.value.clone())).collect();
    let general = SettingValue::Plain("general".into());
    assert_eq!(shown, [("greeting", SettingValue::Unset), ("channel", general)], "as they were defined first");
    settings.set(&world("w"), "channel", None).await?;
    let shown = settings.of(&audience("r", "bob"), &world("w")).await?;
    assert_eq!(shown[1].value, SettingValue::Unset);
    assert!(!shown[1].definition.is_required);
    assert_eq!(settings.secret(&audience("r", "bob"), &world("w"), "channel").await?, None, "no secret");
    Ok(())
}

async fn a_secret_is_told_to_the_call_that_needs_it_alone(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    found(&records, "w", "ana", "r").await;
    let settings = records.settings();
    settings.define(&world("w"), definition("token", true)).await?;
    assert_eq!(settings.of(&audience("r", "ana"), &world("w")).await?[0].value, SettingValue::Unset);
    settings.set(&world("w"), "token", Some(Secret::new("xyzzy"))).await?;
    let shown = settings.of(&audience("r", "ana"), &world("w")).await?;
    assert_eq!(shown[0].value, SettingValue::Secret);
    for text in [format!("{shown:?}"), serde_json::to_string(&shown)?, format!("{records:?}")] {
        assert!(!text.contains("xyzzy"), "{text}");
    }
    let secret = settings.secret(&audience("r", "ana"), &world("w"), "token").await?.expect("a secret");
    assert_eq!((secret.expose(), format!("{secret:?}").as_str()), ("xyzzy", "Secret(..)"));
    Ok(())
}

async fn what_was_secret_is_never_shown(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    found(&records, "w", "ana", "r").await;
    let settings = records.settings();
    settings.define(&world("w"), definition("token", true)).await?;
    settings.set(&world("w"), "token", Some(Secret::new("xyzzy"))).await?;
    settings.define(&world("w"), definition("token", false)).await?;
    assert_eq!(settings.of(&audience("r", "ana"), &world("w")).await?[0].value, SettingValue::Unset);
    settings.set(&world("w"), "token", Some(Secret::new("plain"))).await?;
    settings.define(&world("w"), definition("token", true)).await?;
    assert_eq!(settings.of(&audience("r", "ana"), &world("w")).await?[0].value, SettingValue::Secret);
    Ok(())
}

async fn settings_of_another_world_are_refused(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    found(&records, "w", "ana", "r").await;
    found(&records, "v", "bob", "s").await;
    let settings = records.settings();
    settings.define(&world("w"), definition("token", true)).await?;
    settings.set(&world("w"), "token", Some(Secret::new("xyzzy"))).await?;
    for of in [audience("s", "bob"), audience("dm", "bob"), audience("s", "eve")] {
        let error = settings.of(&of, &world("w")).await.expect_err("not shown");
        assert_eq!(error.kind(), ErrorKind::Unauthorized);
        let error = settings.secret(&of, &world("w"), "token").await.expect_err("not told");
        assert_eq!(error.kind(), ErrorKind::Unauthorized);
    }
    // In a room of the world, and to its owner in any room.
    for of in [audience("r", "bob"), audience("dm", "ana"), audience("s", "ana")] {
        assert_eq!(settings.of(&of, &world("w")).await?.len(), 1);
    }
    Ok(())
}

async fn agents_do_not_see_each_others_worlds(stage: Stage) -> CaseResult {
    let (one, other) = (stage.records("a"), stage.records("b"));
    found(&one, "w", "ana", "r").await;
    one.settings().define(&world("w"), definition("token", true)).await?;
    assert_eq!(other.worlds().get(&audience("r", "ana")).await?, None);
    assert!(owned(&other, audience("r", "ana")).await.is_empty());
    found(&other, "w", "ana", "r").await;
    assert!(other.settings().of(&audience("r", "ana"), &world("w")).await?.is_empty());
    Ok(())
}
