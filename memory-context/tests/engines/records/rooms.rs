//! Rooms of conversations, and their members.

use std::collections::BTreeSet;

use memory_context::records::{Audience, ChannelType, Records, Room, RoomId, RoomState};
use memory_core::filter::Field;
use memory_core::{Collection, Content, DocumentQuery, DocumentWrite, ErrorKind};

use super::{audience, direct, entity, join, room, world};
use crate::stage::{CaseResult, Stage, cases};

cases! {
    a_room_is_kept_once_and_changed_by_its_id,
    racing_changes_of_a_room_lose_nothing,
    rooms_of_two_participants_are_the_intersection,
    what_may_be_shown_is_what_all_who_are_present_share,
    a_room_that_is_not_direct_shows_its_own_alone,
    who_has_left_a_room_is_shown_nothing_of_it,
    racing_joins_lose_nobody,
    no_document_grows_with_the_rooms_of_the_agent,
    the_agent_is_shown_what_those_who_listen_share,
    what_is_known_is_kept_again_without_a_look_at_the_links,
    a_room_is_linked_before_it_belongs_to_a_world,
    a_participant_has_a_state_and_keeps_it,
    a_room_with_too_many_participants_goes_on_with_the_newest,
    the_rooms_of_a_world_are_those_that_the_entity_is_in,
    agents_do_not_see_each_others_rooms,
}

fn names(rooms: &[RoomId]) -> BTreeSet<&str> {
    rooms.iter().map(RoomId::as_str).collect()
}

async fn readable(records: &Records, audience: Audience) -> Vec<String> {
    let rooms = records.rooms().readable(&audience).await.expect("rooms");
    assert_eq!(rooms.first(), Some(&audience.room), "itself comes first");
    names(&rooms).into_iter().map(str::to_owned).collect()
}

async fn a_room_is_kept_once_and_changed_by_its_id(stage: Stage) -> CaseResult {
    let (records, elsewhere) = (stage.records("a"), stage.records_elsewhere("a"));
    let mut first = Room::new(room("r"), ChannelType::Group);
    (first.name, first.source) = (Some("general".into()), "discord".into());
    assert!(records.rooms().ensure(&first).await?);
    assert!(!elsewhere.rooms().ensure(&Room::new(room("r"), ChannelType::Dm)).await?);
    assert_eq!(elsewhere.rooms().get(&audience("r", "ana")).await?.as_ref(), Some(&first));
    let changed = elsewhere
        .rooms()
        .update(&room("r"), |room| {
            room.channel_type = ChannelType::Thread;
            room.id = super::room("s");
        })
        .await?;
    assert_eq!((changed.id.as_str(), changed.channel_type), ("r", ChannelType::Thread));
    assert_eq!(records.rooms().get(&audience("r", "ana")).await?, Some(changed));
    assert_eq!(records.rooms().get(&audience("s", "ana")).await?, None);
    let unknown = records.rooms().update(&room("s"), |_| ()).await.expect_err("unknown");
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    Ok(())
}

async fn racing_changes_of_a_room_lose_nothing(stage: Stage) -> CaseResult {
    let (records, elsewhere) = (stage.records("a"), stage.records_elsewhere("a"));
    records.rooms().ensure(&Room { name: Some(String::new()), ..Room::new(room("r"), ChannelType::Group) }).await?;
    let append = |letter: char| {
        let handle = if letter.is_ascii_uppercase() { &records } else { &elsewhere };
        let change = move |room: &mut Room| room.name.get_or_insert_default().push(letter);
        async move { handle.rooms().update(&room("r"), change).await }
    };
    futures::future::try_join_all("aBcDeFgH".chars().map(append)).await?;
    let name = records.rooms().get(&audience("r", "ana")).await?.and_then(|room| room.name).expect("a name");
    assert_eq!(name.chars().collect::<BTreeSet<_>>(), "aBcDeFgH".chars().collect());
    assert_eq!(name.len(), 8);
    Ok(())
}

async fn rooms_of_two_participants_are_the_intersection(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    join(&records, "both", &["ana", "bob"]).await;
    join(&records, "all", &["eve", "bob", "ana"]).await;
    join(&records, "ana-only", &["ana"]).await;
    join(&records, "bob-only", &["bob"]).await;
    let shared = records.rooms().shared(&audience("both", "ana"), &entity("bob")).await?;
    assert_eq!(names(&shared), BTreeSet::from(["all", "both"]));
    assert_eq!(shared.len(), 2);
    let back = records.rooms().shared(&audience("bob-only", "bob"), &entity("ana")).await?;
    assert_eq!(names(&back), names(&shared), "from whichever room it is asked");
    assert!(records.rooms().shared(&audience("both", "ana"), &entity("nobody")).await?.is_empty());
    assert!(records.rooms().shared(&audience("both", "nobody"), &entity("ana")).await?.is_empty());
    Ok(())
}

async fn what_may_be_shown_is_what_all_who_are_present_share(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let agent = records.agent().as_str().to_owned();
    direct(&records, "dm-ana", &["ana", &agent]).await;
    direct(&records, "dm-bob", &["bob", &agent]).await;
    direct(&records, "pair", &["ana", "bob"]).await;
    join(&records, "group", &["ana", "bob", "eve", &agent]).await;
    for (of, expected) in [
        (audience("dm-ana", "ana"), &["dm-ana", "group", "pair"][..]),
        (audience("dm-bob", "bob"), &["dm-bob", "group", "pair"]),
        (audience("pair", "ana"), &["group", "pair"]),
        (audience("group", "ana"), &["group"]),
        (audience("group", "eve"), &["group"]),
        // An author is present, even if nobody has said so.
        (audience("pair", "eve"), &["group", "pair"]),
        (audience("dm-ana", "bob"), &["dm-ana", "group", "pair"]),
        (audience("dm-ana", "stranger"), &["dm-ana"]),
    ] {
        assert_eq!(readable(&records, of.clone()).await, expected, "{of:?}");
    }
    Ok(())
}

/// In a group, and in an unknown room, there may be others than those who have spoken.
async fn a_room_that_is_not_direct_shows_its_own_alone(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    direct(&records, "dm", &["ana"]).await;
    join(&records, "group", &["ana"]).await;
    for channel_type in ChannelType::ALL {
        let id = channel_type.as_str();
        records.rooms().ensure(&Room::new(room(id), channel_type)).await?;
        join(&records, id, &["ana"]).await;
        let is_alone = readable(&records, audience(id, "ana")).await == [id];
        let is_direct = matches!(id, "SELF" | "DM" | "VOICE_DM" | "API");
        assert_eq!((channel_type.is_direct(), is_alone), (is_direct, !is_direct), "{id}");
    }
    assert_eq!(readable(&records, audience("unknown", "ana")).await, ["unknown"]);
    assert_eq!(readable(&records, audience("group", "ana")).await, ["group"]);
    Ok(())
}

async fn who_has_left_a_room_is_shown_nothing_of_it(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    direct(&records, "dm", &["ana"]).await;
    join(&records, "group", &["ana", "bob"]).await;
    assert_eq!(readable(&records, audience("dm", "ana")).await, ["dm", "group"]);
    for _ in 0..2 {
        records.participants().leave(&room("group"), &entity("ana")).await?;
    }
    assert_eq!(readable(&records, audience("dm", "ana")).await, ["dm"]);
    let present = stage.records_elsewhere("a").participants().of_room(&audience("group", "bob")).await?;
    assert_eq!(present.iter().map(|one| one.entity.as_str()).collect::<Vec<_>>(), ["bob"]);
    join(&records, "group", &["ana"]).await;
    assert_eq!(readable(&records, audience("dm", "ana")).await, ["dm", "group"]);
    Ok(())
}

async fn racing_joins_lose_nobody(stage: Stage) -> CaseResult {
    let (records, elsewhere) = (stage.records("a"), stage.records_elsewhere("a"));
    let joins = (0..16).map(|number| {
        let handle = if number % 2 == 0 { &records } else { &elsewhere };
        async move {
            let who = entity(&format!("e{}", number / 2));
            handle.participants().join(&room("r"), &who).await
        }
    });
    futures::future::try_join_all(joins).await?;
    let present = records.participants().of_room(&audience("r", "e0")).await?;
    let present: Vec<_> = present.iter().map(|one| one.entity.as_str()).collect();
    assert_eq!(present.len(), 8, "each once: {present:?}");
    Ok(())
}

async fn no_document_grows_with_the_rooms_of_the_agent(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let agent = records.agent().entity();
    for id in ["one", "two"] {
        join(&records, id, &[agent.as_str(), "ana"]).await;
    }
    let links = DocumentQuery::builder(Collection::parse("_links")?).all();
    let links = links.filter(Field::metadata(["from"]).eq(agent.as_str()));
    assert!(stage.provider().documents().query(&links.build()?).await?.documents.is_empty());
    Ok(())
}

async fn the_agent_is_shown_what_those_who_listen_share(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let agent = records.agent().as_str().to_owned();
    for (id, channel_type) in
        [("own", ChannelType::Own), ("nobody", ChannelType::Dm), ("ana", ChannelType::Dm), ("both", ChannelType::Group)]
    {
        let of_guild = Room { world: Some(world("guild")), ..Room::new(room(id), channel_type) };
        records.rooms().ensure(&of_guild).await?;
        join(&records, id, &[&agent]).await;
    }
    join(&records, "ana", &["ana"]).await;
    join(&records, "both", &["ana", "bob"]).await;
    join(&records, "left", &["ana"]).await;
    for (of_room, expected) in [
        ("own", &["ana", "both", "nobody", "own"][..]),
        ("nobody", &["nobody"]),
        ("ana", &["ana", "both", "left"]),
        ("both", &["both"]),
    ] {
        assert_eq!(readable(&records, audience(of_room, &agent)).await, expected, "{of_room}");
    }
    for (of, other) in [(audience("ana", "ana"), entity(&agent)), (audience("own", &agent), entity("ana"))] {
        let shared = records.rooms().shared(&of, &other).await?;
        assert_eq!(names(&shared), BTreeSet::from(["ana", "both"]), "{of:?}");
    }
    let of_world = records.rooms().of_world(&audience("both", &agent)).await?;
    let of_world: Vec<_> = of_world.iter().map(|room| room.id.as_str()).collect();
    assert_eq!(of_world, ["own", "nobody", "ana", "both"]);
    Ok(())
}

/// Breaks the links of these entities, so that reading them fails.
async fn break_links(stage: &Stage, of: &[&str]) -> CaseResult {
    let (documents, collection) = (stage.provider().documents(), Collection::parse("_links")?);
    let from = Field::metadata(["from"]).one_of(of.iter().copied());
    let links = DocumentQuery::builder(collection.clone()).all().filter(from).build()?;
    let links = documents.query(&links).await?.documents;
    assert_eq!(links.len(), of.len());
    for link in links {
        let write = DocumentWrite::new(collection.clone(), link.space_id, Content::parse("no link")?, link.created_at);
        documents.put(write.with_id(link.id)).await?;
    }
    Ok(())
}

async fn what_is_known_is_kept_again_without_a_look_at_the_links(stage: Stage) -> CaseResult {
    let (records, ana, guild) = (stage.records("a"), stage.id("ana"), stage.id("guild"));
    let of_guild = Room { world: Some(world(&guild)), ..Room::new(room("r"), ChannelType::Group) };
    assert!(records.rooms().ensure(&of_guild).await?);
    join(&records, "r", &[&ana]).await;
    break_links(&stage, &[&ana, &guild]).await?;
    assert!(!records.rooms().ensure(&of_guild).await?);
    join(&records, "r", &[&ana]).await;
    Ok(())
}

async fn a_room_is_linked_before_it_belongs_to_a_world(stage: Stage) -> CaseResult {
    let (records, guild) = (stage.records("a"), stage.id("guild"));
    let of_guild = Room { world: Some(world(&guild)), ..Room::new(room("r"), ChannelType::Group) };
    records.rooms().ensure(&of_guild).await?;
    records.rooms().ensure(&Room::new(room("s"), ChannelType::Group)).await?;
    break_links(&stage, &[&guild]).await?;
    let moved = records.rooms().update(&room("s"), |room| room.world = Some(world(&guild))).await;
    assert_eq!(moved.expect_err("no link").kind(), ErrorKind::Corrupt);
    let room = records.rooms().get(&audience("s", "ana")).await?.expect("a room");
    assert_eq!(room.world, None, "nothing would find it there");
    Ok(())
}

async fn a_participant_has_a_state_and_keeps_it(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    join(&records, "r", &["ana"]).await;
    let participants = records.participants();
    assert_eq!(participants.get(&audience("r", "ana"), &entity("ana")).await?.expect("present").state, None);
    participants.set_state(&room("r"), &entity("ana"), Some(RoomState::Muted)).await?;
    join(&records, "r", &["ana"]).await;
    let muted = stage.records_elsewhere("a").participants().get(&audience("r", "ana"), &entity("ana")).await?;
    assert_eq!(muted.expect("present").state, Some(RoomState::Muted), "to join again changes nothing");
    participants.set_state(&room("r"), &entity("ana"), None).await?;
    assert_eq!(participants.get(&audience("r", "ana"), &entity("ana")).await?.expect("present").state, None);
    assert_eq!(participants.get(&audience("r", "ana"), &entity("bob")).await?, None);
    assert_eq!(participants.get(&audience("s", "ana"), &entity("ana")).await?, None);
    let absent = participants.set_state(&room("r"), &entity("bob"), Some(RoomState::Followed)).await;
    assert_eq!(absent.expect_err("absent").kind(), ErrorKind::NotFound);
    Ok(())
}

async fn a_room_with_too_many_participants_goes_on_with_the_newest(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let (agent, participants) = (records.agent().entity(), records.participants());
    direct(&records, "elsewhere", &["newcomer"]).await;
    direct(&records, "r", &["first", agent.as_str(), "muted"]).await;
    participants.set_state(&room("r"), &entity("muted"), Some(RoomState::Muted)).await?;
    // As many as their document can hold.
    let (documents, collection) = (stage.provider().documents(), Collection::parse("_participants")?);
    let query =
        DocumentQuery::builder(collection.clone()).under(format!("agent/{}", agent.as_str().replace('-', "%2D")));
    let found = documents.query(&query.filter_text("metadata.room = 'r'").build()?).await?.documents;
    let [document] = &found[..] else { panic!("{} documents", found.len()) };
    let mut json: serde_json::Value = serde_json::from_str(document.content.as_str())?;
    let others = (Content::MAX_BYTES - json.to_string().len()) / r#",{"entity":"p00000"}"#.len();
    let list = json["participants"].as_array_mut().expect("a list");
    list.extend((0..others).map(|number| serde_json::json!({ "entity": format!("p{number:05}") })));
    let write = DocumentWrite::new(
        collection,
        document.space_id.clone(),
        Content::parse(json.to_string())?,
        document.created_at,
    );
    documents.put(write.with_id(document.id.clone()).with_metadata(document.metadata.clone())).await?;
    join(&records, "r", &["newcomer"]).await;
    join(&records, "r", &["newcomer"]).await;

    let of_room = participants.of_room(&audience("r", "newcomer")).await?;
    let ids: Vec<_> = of_room.iter().map(|one| one.entity.as_str()).collect();
    assert!((others - 3_000..others).contains(&ids.len()), "{}", ids.len());
    let last = format!("p{:05}", others - 1);
    let (oldest, newest) = (&ids[..2], &ids[ids.len() - 2..]);
    assert_eq!((oldest, newest), (&[agent.as_str(), "muted"][..], &[last.as_str(), "newcomer"][..]));
    assert!(!ids.contains(&"first") && !ids.contains(&"p00000"), "those who came first are left out");
    // Whoever is left out may listen as well.
    assert_eq!(readable(&records, audience("r", "newcomer")).await, ["r"]);
    assert_eq!(readable(&records, audience("elsewhere", "newcomer")).await, ["elsewhere", "r"]);
    join(&records, "r", &["first"]).await;
    assert!(participants.get(&audience("r", "first"), &entity("first")).await?.is_some(), "and comes back");
    Ok(())
}

async fn the_rooms_of_a_world_are_those_that_the_entity_is_in(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    for (id, of) in [("general", "w"), ("secret", "w"), ("news", "w"), ("abroad", "v"), ("moved", "w")] {
        let room = Room { world: Some(world(of)), ..Room::new(room(id), ChannelType::Group) };
        records.rooms().ensure(&room).await?;
    }
    records.rooms().update(&room("moved"), |room| room.world = Some(world("v"))).await?;
    for id in ["general", "news", "abroad", "moved"] {
        join(&records, id, &["ana"]).await;
    }
    join(&records, "secret", &["bob"]).await;
    let of = async |audience: Audience| -> memory_core::Result<Vec<String>> {
        let rooms = records.rooms().of_world(&audience).await?;
        Ok(rooms.into_iter().map(|room| room.id.to_string()).collect())
    };
    assert_eq!(of(audience("general", "ana")).await?, ["general", "news"]);
    assert_eq!(of(audience("general", "bob")).await?, ["general", "secret"], "the room itself, and those of bob");
    assert_eq!(of(audience("abroad", "ana")).await?, ["abroad", "moved"]);
    assert_eq!(of(audience("unknown", "ana")).await?, [""; 0]);
    Ok(())
}

async fn agents_do_not_see_each_others_rooms(stage: Stage) -> CaseResult {
    let (one, other) = (stage.records("a"), stage.records("b"));
    one.rooms().ensure(&Room::new(room("r"), ChannelType::Dm)).await?;
    join(&one, "r", &["ana"]).await;
    assert_eq!(other.rooms().get(&audience("r", "ana")).await?, None);
    assert!(other.participants().of_room(&audience("r", "ana")).await?.is_empty());
    direct(&other, "s", &["ana"]).await;
    assert_eq!(readable(&other, audience("s", "ana")).await, ["s"]);
    assert!(other.rooms().ensure(&Room::new(room("r"), ChannelType::Dm)).await?);
    Ok(())
}
