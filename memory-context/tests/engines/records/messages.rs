//! What was said, and in which room.

use futures::future::join_all;
use memory_context::records::{
    ActionResult, ActionStatus, Attachment, Audience, ChannelType, Message, MessageContent, NewMessage, Records,
};
use memory_core::{Erasure, ErrorKind, MemoryId, NewMemory, Result, SpaceId, Status, Timestamp, Trigger};

use super::{at, audience, direct, entity, join, room, said, world};
use crate::stage::{CaseResult, Stage, cases};

cases! {
    a_message_comes_back_as_it_was,
    the_newest_of_a_room_come_first_and_no_others,
    an_id_that_looks_like_a_path_is_an_id,
    a_message_that_comes_twice_is_stored_once,
    a_message_that_was_erased_does_not_come_back,
    of_those_who_add_the_same_message_one_adds_it,
    a_conversation_reaches_as_far_as_a_message,
    what_could_not_be_said_is_told_from_what_was,
    a_message_is_read_in_its_room_only,
    attachments_are_described_later,
    a_row_that_is_no_message_hides_no_other,
    interactions_are_those_of_the_two_in_rooms_that_may_be_shown,
    agents_do_not_read_each_others_messages,
}

fn texts(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.content.text.as_str()).collect()
}

async fn recent(records: &Records, audience: &Audience) -> Vec<String> {
    let found = records.messages().recent(audience, 100).await.expect("messages");
    texts(&found).into_iter().map(str::to_owned).collect()
}

async fn a_message_comes_back_as_it_was(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let question = records.messages().add(said("r", "ana", "When?", 1)).await?;
    let mut content = MessageContent::new(room("r"), records.agent().entity(), "Grüße,\n\"now\" 東京");
    content.world = Some(world("w"));
    content.channel_type = ChannelType::VoiceGroup;
    content.source = "discord".into();
    content.in_reply_to = Some(question.id);
    content.thought = Some("She is in a hurry".into());
    content.actions = vec!["REPLY".into(), "FOLLOW_ROOM".into()];
    content.providers = vec!["FACTS".into()];
    content.attachments = vec![Attachment { id: "1".into(), url: "https://x/1.png".into(), ..Attachment::default() }];
    content.action_result = Some(ActionResult {
        run: "run-1".into(),
        action: "REPLY".into(),
        status: ActionStatus::Failed,
        step: 1,
        steps: 2,
        thought: None,
    });
    let stored = records.messages().add(NewMessage::new(content.clone(), at(-7))).await?;
    let elsewhere = stage.records_elsewhere("a");
    let read = elsewhere.messages().get(&audience("r", "ana"), stored.id).await?.expect("the message");
    assert_eq!(read, stored);
    assert_eq!((read.content, read.created_at), (content, at(-7)));
    let memory = stage.provider().get(stored.id).await?.expect("a row of the ledger");
    assert_eq!(memory.status, Status::Observed, "no runtime works on it");
    Ok(())
}

async fn the_newest_of_a_room_come_first_and_no_others(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    for millis in 0..20 {
        records.messages().add(said("guild", "ana", &millis.to_string(), millis)).await?;
        for sibling in ["guild1", "guild-1", "guild/1", "guild:1", "guil", "Guild"] {
            records.messages().add(said(sibling, "ana", sibling, millis)).await?;
        }
    }
    let found = records.messages().recent(&audience("guild", "ana"), 3).await?;
    assert_eq!(texts(&found), ["19", "18", "17"]);
    assert_eq!(recent(&records, &audience("guild", "ana")).await.len(), 20);
    assert_eq!(recent(&records, &audience("guild-1", "ana")).await, ["guild-1"; 20]);
    assert!(recent(&records, &audience("nowhere", "ana")).await.is_empty());
    assert!(records.messages().recent(&audience("guild", "ana"), 0).await?.is_empty());
    let all = records.messages().recent(&audience("guild", "ana"), usize::MAX).await?;
    assert_eq!((all.len(), records.messages().until(&all[0], usize::MAX).await?), (20, all));
    Ok(())
}

/// If ids were joined without escaping, two of these would be one room.
async fn an_id_that_looks_like_a_path_is_an_id(stage: Stage) -> CaseResult {
    let rooms = ["r", "r/messages", "r/room/r", "../r", "r%2Fmessages", "*", "r-", "-r", "é", "R"];
    let agents = ["a", "a/room/r", "a%2Froom"];
    for agent in agents {
        for one in rooms {
            stage.records(agent).messages().add(said(one, "ana", &format!("{agent} {one}"), 1)).await?;
        }
    }
    for agent in agents {
        for one in rooms {
            assert_eq!(recent(&stage.records(agent), &audience(one, "ana")).await, [format!("{agent} {one}")]);
        }
    }
    Ok(())
}

async fn a_message_that_comes_twice_is_stored_once(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let new = |of_room: &str, text: &str| said(of_room, "ana", text, 1).with_external_id("42");
    let first = records.messages().add(new("r", "hi")).await?;
    let again = stage.records_elsewhere("a").messages().add(new("r", "hi")).await?;
    assert_eq!(first, again);
    let elsewhere = records.messages().add(new("s", "hi")).await?;
    assert_ne!(first.id, elsewhere.id, "an id of the platform is one of its room");
    let other = records.messages().add(new("r", "bye")).await.expect_err("another text");
    assert_eq!(other.kind(), ErrorKind::Conflict);
    assert_eq!(recent(&records, &audience("r", "ana")).await, ["hi"]);
    Ok(())
}

async fn a_message_that_was_erased_does_not_come_back(stage: Stage) -> CaseResult {
    let (records, of_ana) = (stage.records("a"), audience("r", "ana"));
    let new = || said("r", "ana", "hi", 1).with_external_id("42");
    let message = records.messages().add(new()).await?;
    records.reflections().add(&message, "a greeting", at(2)).await?;
    let thought = records.reflections().newest(&of_ana, 1).await?.remove(0).id;
    let erasure = Erasure::records([message.id.into(), thought.into()], "a test")?;
    assert_eq!(stage.provider().erase(&erasure).await?.records.len(), 2);
    let kind = |failed: Result<()>| failed.expect_err("it was erased").kind();
    assert_eq!(kind(records.messages().add(new()).await.map(drop)), ErrorKind::Conflict);
    records.reflections().add(&message, "a greeting", at(2)).await?;
    assert!(records.reflections().newest(&of_ana, 1).await?.is_empty());
    assert!(records.messages().get(&of_ana, message.id).await?.is_none());
    assert_eq!(kind(records.messages().describe(&of_ana, message.id, vec![]).await), ErrorKind::NotFound);
    assert_eq!(kind(records.messages().mark_undelivered(&of_ana, message.id).await), ErrorKind::NotFound);
    assert!(recent(&records, &of_ana).await.is_empty());
    Ok(())
}

async fn of_those_who_add_the_same_message_one_adds_it(stage: Stage) -> CaseResult {
    let (here, elsewhere) = (stage.records("a"), stage.records_elsewhere("a"));
    let again = || said("r", "ana", "hello", 1).with_external_id("7");
    let adding = (0..8).map(|number| {
        let records = if number % 2 == 0 { here.clone() } else { elsewhere.clone() };
        async move { records.messages().add_once(again()).await }
    });
    let added = join_all(adding).await.into_iter().collect::<Result<Vec<_>>>()?;
    assert_eq!(added.iter().filter(|added| added.is_new).count(), 1);
    assert!(added.iter().all(|one| one.message == added[0].message));
    assert!(!here.messages().add_once(again()).await?.is_new);
    let without_an_id = here.messages().add_once(said("r", "ana", "hello", 1)).await?;
    assert!(without_an_id.is_new && without_an_id.message.id != added[0].message.id);
    Ok(())
}

async fn a_conversation_reaches_as_far_as_a_message(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let (messages, agent) = (records.messages(), records.agent().entity());
    let one = messages.add(said("r", "ana", "one", 10)).await?;
    let two = messages.add(said("r", "bo", "two", 20)).await?;
    let same_time = messages.add(said("r", "ana", "at the same time", 20)).await?;
    let answer = async |to: MemoryId, text: &str, millis| {
        let mut content = MessageContent::new(room("r"), agent.clone(), text);
        content.in_reply_to = Some(to);
        messages.add(NewMessage::new(content, at(millis))).await
    };
    answer(one.id, "to one", 20).await?;
    answer(two.id, "to two", 30).await?;
    let three = messages.add(said("r", "bo", "three", 40)).await?;
    answer(three.id, "to three", 50).await?;
    messages.add(said("r", "eve", "to one, says eve", 60)).await?;
    let until = async |message: &Message, limit| messages.until(message, limit).await;
    assert_eq!(texts(&until(&one, 10).await?), ["to one", "one"]);
    assert_eq!(texts(&until(&two, 10).await?), ["to two", "to one", "two", "one"]);
    assert_eq!(texts(&until(&same_time, 10).await?), ["to two", "to one", "at the same time", "two", "one"]);
    assert_eq!(texts(&until(&same_time, 3).await?), ["to two", "to one", "at the same time"]);
    let three = until(&three, 10).await?;
    assert_eq!(texts(&three)[..3], ["to three", "three", "to two"]);
    assert_eq!(three.len(), 7);
    Ok(())
}

async fn what_could_not_be_said_is_told_from_what_was(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let message = records.messages().add(said("r", "ana", "hello", 1)).await?;
    assert!(!message.is_undelivered);
    let elsewhere = records.messages().mark_undelivered(&audience("s", "ana"), message.id).await;
    assert_eq!(elsewhere.expect_err("another room").kind(), ErrorKind::NotFound);
    records.messages().mark_undelivered(&audience("r", "ana"), message.id).await?;
    let read = records.messages().get(&audience("r", "ana"), message.id).await?.expect("the message");
    assert_eq!((read.is_undelivered, read.content), (true, message.content));
    Ok(())
}

async fn a_message_is_read_in_its_room_only(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let message = records.messages().add(said("r", "ana", "hi", 1)).await?;
    assert_eq!(records.messages().get(&audience("r", "bob"), message.id).await?.as_ref(), Some(&message));
    assert_eq!(records.messages().get(&audience("s", "ana"), message.id).await?, None);
    assert_eq!(stage.records("b").messages().get(&audience("r", "ana"), message.id).await?, None);
    assert_eq!(records.messages().get(&audience("r", "ana"), MemoryId::generate()).await?, None);
    let error =
        records.messages().describe(&audience("s", "ana"), message.id, Vec::new()).await.expect_err("elsewhere");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    Ok(())
}

async fn attachments_are_described_later(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let mut new = said("r", "ana", "look", 1);
    let mut picture = Attachment { id: "1".into(), url: "https://x/1.png".into(), ..Attachment::default() };
    new.content.attachments = vec![picture.clone()];
    let message = records.messages().add(new).await?;
    picture.description = Some("a cat".into());
    for _ in 0..2 {
        records.messages().describe(&audience("r", "ana"), message.id, vec![picture.clone()]).await?;
    }
    let found = records.messages().recent(&audience("r", "ana"), 1).await?;
    assert_eq!(found[0].content.attachments, [picture]);
    assert_eq!(found[0].content.text, "look");
    Ok(())
}

async fn a_row_that_is_no_message_hides_no_other(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let space = SpaceId::parse(format!("{}/messages", records.room_space(&room("r"))?))?;
    for millis in [1, 3] {
        let foreign = NewMemory::new(space.clone(), Trigger::parse(r#"{"text":"?"}"#)?, at(millis));
        stage.provider().store(foreign.with_status(Status::Observed)).await?;
    }
    records.messages().add(said("r", "ana", "one", 0)).await?;
    records.messages().add(said("r", "ana", "two", 2)).await?;
    let found = records.messages().recent(&audience("r", "ana"), 2).await?;
    assert_eq!(texts(&found), ["two", "one"], "as many as there are, and as were asked for");
    Ok(())
}

async fn interactions_are_those_of_the_two_in_rooms_that_may_be_shown(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let agent = records.agent().as_str().to_owned();
    direct(&records, "dm-ana", &["ana", &agent]).await;
    direct(&records, "dm-bob", &["bob", &agent]).await;
    join(&records, "group", &["ana", "bob", &agent]).await;
    join(&records, "others", &["bob", "eve", &agent]).await;
    for (of_room, author, text, millis) in [
        ("group", "ana", "ana in the group", 1),
        ("group", "bob", "bob in the group", 2),
        ("group", &agent, "the agent in the group", 3),
        ("dm-ana", "ana", "ana in private", 4),
        ("dm-bob", "bob", "bob in private", 5),
        ("others", &agent, "the agent among others", 6),
    ] {
        records.messages().add(said(of_room, author, text, millis)).await?;
    }
    let of = async |audience: Audience| records.messages().interactions(&audience, Timestamp::MAX, 10).await;
    let shown = of(audience("dm-ana", "ana")).await?;
    assert_eq!(texts(&shown), ["the agent in the group", "ana in the group"]);
    assert_eq!(texts(&of(audience("group", "ana")).await?), [""; 0], "bob does not hear what ana says in private");
    assert_eq!(texts(&of(audience("elsewhere", "nobody")).await?), [""; 0]);
    let one = records.messages().interactions(&audience("dm-ana", "ana"), Timestamp::MAX, 1).await?;
    assert_eq!(texts(&one), ["the agent in the group"]);
    Ok(())
}

async fn agents_do_not_read_each_others_messages(stage: Stage) -> CaseResult {
    let (one, other) = (stage.records("a"), stage.records("b"));
    for records in [&one, &other] {
        join(records, "r", &["ana"]).await;
        direct(records, "s", &["ana"]).await;
    }
    one.messages().add(said("r", "ana", "to a", 1)).await?;
    assert_eq!(recent(&one, &audience("r", "ana")).await, ["to a"]);
    assert!(recent(&other, &audience("r", "ana")).await.is_empty());
    assert_eq!(texts(&one.messages().interactions(&audience("s", "ana"), Timestamp::MAX, 9).await?), ["to a"]);
    assert!(other.messages().interactions(&audience("s", "ana"), Timestamp::MAX, 9).await?.is_empty());
    assert_eq!(entity("ana"), one.messages().recent(&audience("r", "ana"), 1).await?[0].content.author);
    Ok(())
}
