//! Everything about a person is found, and nothing else.

use std::collections::BTreeSet;

use memory_context::prompt::{MemoryLoadContext, MemoryStore, PromptMemory};
use memory_context::records::{
    Audience, ChannelType, ChoiceOption, Entity, NewChoice, NewFact, Records, Room, World, WorldRole,
};
use memory_core::{DocumentQuery, Erasure, ErrorKind, MemoryQuery, QueryBuilder, RecordId, Result};

use super::embedding::Subjects;
use super::{at, audience, direct, entity, join, room, said, world};
use crate::stage::{CaseResult, Stage, add, cases};

cases! {
    what_is_known_of_somebody_is_found_and_erased,
    what_all_agents_share_is_named,
    a_room_in_which_somebody_else_was_is_not_theirs,
    the_lists_of_others_lose_them,
    who_is_not_known_has_no_traces,
}

/// Erases everything about a person, in the given order, and returns the erased records.
async fn erase(stage: &Stage, records: &Records, of: &str) -> Result<BTreeSet<RecordId>> {
    let (provider, person) = (stage.provider(), records.person(entity(of)));
    let traces = person.traces().await?;
    let memories = traces.memories.into_iter().map(|query| Erasure::memories(query, "a test"));
    let documents = traces.documents.into_iter().map(|query| Erasure::documents(query, "a test"));
    let mut erasures = memories.chain(documents).collect::<Result<Vec<_>>>()?;
    for some in traces.records.chunks(2) {
        erasures.push(Erasure::records(some.iter().cloned(), "a test")?);
    }
    person.leave_lists().await?;
    let mut erased = BTreeSet::new();
    for erasure in erasures {
        loop {
            let slice = provider.erase(&erasure).await?;
            erased.extend(slice.records);
            if slice.is_complete {
                break;
            }
        }
    }
    Ok(erased)
}

/// Asserts that nothing about a person is found any more.
async fn assert_forgotten(stage: &Stage, records: &Records, of: &str) -> CaseResult {
    let traces = records.person(entity(of)).traces().await?;
    assert_eq!((traces.records, traces.lists), (vec![], vec![]));
    for query in traces.memories {
        assert!(stage.provider().query(&query.build()?).await?.memories.is_empty());
    }
    for query in traces.documents {
        assert!(stage.provider().documents().query(&query.build()?).await?.documents.is_empty());
    }
    Ok(())
}

/// The texts of all memories and documents below the space of an agent, and of its prompt memory.
async fn everything(stage: &Stage, records: &Records) -> Result<String> {
    let (provider, space) = (stage.provider(), records.agent().space()?);
    let mut text = String::new();
    let page = provider.query(&MemoryQuery::builder().under(&space).limit(1_000).build()?).await?;
    text.extend(page.memories.iter().map(|memory| format!("{:?}\n", memory.trigger.as_str())));
    for collection in provider.documents().collections().await? {
        let query: QueryBuilder<_> = DocumentQuery::builder(collection.clone()).limit(1_000);
        let query = if collection.as_str() == "_prompt" { query.exact("prompt") } else { query.under(&space) };
        let page = provider.documents().query(&query.build()?).await?;
        let own = page
            .documents
            .into_iter()
            .filter(|one| collection.as_str() != "_prompt" || one.metadata.as_str().contains(records.agent().as_str()));
        text.extend(own.map(|document| format!("{collection} {}\n", document.content.as_str())));
    }
    Ok(text)
}

async fn what_is_known_of_somebody_is_found_and_erased(stage: Stage) -> CaseResult {
    let records = stage.records("a").with_embedder(Subjects::new("m"));
    let (ana, bob, agent) = (stage.id("ana"), stage.id("bob"), records.agent().as_str().to_owned());
    let (own, group) = (format!("dm:{ana}"), stage.id("group"));
    direct(&records, &own, &[&ana, &agent]).await;
    join(&records, &group, &[&ana, &bob, &agent]).await;
    records.rooms().ensure(&Room::new(room(&group), ChannelType::Group)).await?;
    let prompts = PromptMemory::new(stage.provider().documents());
    for (of_room, author) in [(&own, &ana), (&group, &ana), (&group, &bob)] {
        records.entities().ensure(&Entity::new(entity(author), format!("name of {author}"))).await?;
        let message = records.messages().add(said(of_room, author, &format!("xyzzy of {author}"), 1)).await?;
        records.messages().add(said(of_room, &agent, &format!("answer to {author} in {of_room}"), 2)).await?;
        records.reflections().add(&message, &format!("thought of {author} in {of_room}"), at(3)).await?;
        let fact = |subject: &str, author: &str, text: &str| {
            NewFact::new(room(of_room), entity(subject), entity(author), format!("{text} {author} tea"), at(4))
        };
        records.facts().remember(fact(author, &agent, &format!("about {author} by"))).await?;
        records.facts().remember(fact(&agent, author, "by")).await?;
        records.components().put(&entity(author), "preferences", &format!("part of {author}")).await?;
        let context = MemoryLoadContext::of(records.agent(), &message);
        add(&prompts, &context, MemoryStore::User, &format!("profile {author} {of_room}")).await;
        add(&prompts, &context, MemoryStore::Memory, &format!("kept {author} {of_room}")).await;
    }
    records.upkeep().await?;
    assert!(!stage.keep_old_vectors(&records.agent().space()?).await?.is_empty());
    records.relationships().interact(&entity(&ana), &entity(&bob), [], at(5)).await?;
    records.relationships().interact(&entity(&agent), &entity(&bob), [], at(5)).await?;
    let option = |name: &str| ChoiceOption { name: name.into(), description: String::new() };
    for chooser in [&ana, &bob] {
        let choice = NewChoice::new(room(&group), format!("asked {chooser}"), [option("yes")], at(6));
        let choice = records.choices().ask(choice).await?;
        records.choices().choose(&Audience::new(room(&group), entity(chooser)), choice.id, "yes").await?;
    }
    // Another agent knows a person of this name, too.
    let other = stage.records("b");
    direct(&other, &own, &[&ana, other.agent().as_str()]).await;
    other.messages().add(said(&own, &ana, "to another agent", 1)).await?;

    let before = everything(&stage, &records).await?;
    let erased = erase(&stage, &records, &ana).await?;
    assert!(!erased.is_empty());
    let left = everything(&stage, &records).await?;
    for gone in [
        format!("xyzzy of {ana}"),
        format!("answer to {ana} in {own}"),
        format!("thought of {ana} in {own}"),
        format!("about {ana} by"),
        format!("by {ana} tea"),
        format!("name of {ana}"),
        format!("part of {ana}"),
        format!("profile {ana} {own}"),
        format!("kept {ana} {own}"),
        format!("asked {ana}"),
    ] {
        assert!(before.contains(&gone), "{gone}");
        assert!(!left.contains(&gone), "{gone} is still there: {left}");
    }
    for stays in [
        format!("xyzzy of {bob}"),
        format!("about {bob} by"),
        format!("by {bob} tea"),
        format!("name of {bob}"),
        format!("part of {bob}"),
        format!("asked {bob}"),
        // What the agent said and thought where others listen.
        format!("answer to {ana} in {group}"),
        format!("thought of {ana} in {group}"),
        format!("kept {ana} {group}"),
    ] {
        assert!(left.contains(&stays), "{stays} is gone: {left}");
    }
    assert_eq!(other.messages().recent(&audience(&own, &ana), 9).await?.len(), 1);
    // Vectors that older programs kept beside facts belong to facts that exist.
    let lines = |of: &str| left.lines().filter(|line| line.starts_with(of)).count();
    let vectors =
        left.lines().filter(|line| line.split(' ').next().is_some_and(|name| name.ends_with("-vectors"))).count();
    assert_eq!(vectors, lines("_facts-") - vectors);
    assert_forgotten(&stage, &records, &ana).await
}

async fn what_all_agents_share_is_named(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let (ana, agent) = (stage.id("ana"), records.agent().as_str().to_owned());
    let own = format!("dm:{ana}");
    direct(&records, &own, &[&ana, &agent]).await;
    let message = records.messages().add(said(&own, &ana, "xyzzy", 1)).await?;
    let prompts = PromptMemory::new(stage.provider().documents());
    let of_agent = MemoryLoadContext::of(records.agent(), &message);
    add(&prompts, &of_agent, MemoryStore::Memory, "of this agent").await;
    add(&prompts, &MemoryLoadContext::new(&own, &own, "chat"), MemoryStore::Memory, "of all agents").await;
    let traces = records.person(entity(&ana)).traces().await?;
    let is_prompt = |record: &&RecordId| match record {
        RecordId::Document { collection, .. } => collection.as_str() == "_prompt",
        RecordId::Memory(_) => false,
    };
    assert_eq!((traces.records.iter().filter(is_prompt).count(), traces.shared.len()), (2, 1));
    assert!(traces.records.contains(&traces.shared[0]));
    erase(&stage, &records, &ana).await?;
    assert_forgotten(&stage, &records, &ana).await
}

async fn a_room_in_which_somebody_else_was_is_not_theirs(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let agent = records.agent().as_str().to_owned();
    direct(&records, "of-three", &["ana", "bob", &agent]).await;
    direct(&records, "left", &["ana", "bob", &agent]).await;
    for of_room in ["of-three", "left"] {
        for author in ["ana", "bob", &agent] {
            records.messages().add(said(of_room, author, &format!("by {author}"), 1)).await?;
        }
    }
    records.participants().leave(&room("left"), &entity("bob")).await?;
    erase(&stage, &records, "ana").await?;
    for of_room in ["of-three", "left"] {
        let left = records.messages().recent(&audience(of_room, "bob"), 9).await?;
        let authors: BTreeSet<_> = left.iter().map(|one| one.content.author.as_str()).collect();
        assert_eq!(authors, BTreeSet::from(["bob", &agent]), "{of_room}");
    }
    assert_forgotten(&stage, &records, "ana").await
}

async fn the_lists_of_others_lose_them(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    join(&records, "r", &["ana", "bob"]).await;
    let mut of_rooms = Room::new(room("r"), ChannelType::Group);
    of_rooms.world = Some(world("w"));
    records.rooms().ensure(&of_rooms).await?;
    let mut home = World { owner: Some(entity("ana")), ..World::new(world("w")) };
    home.roles = [("ana", WorldRole::Owner), ("bob", WorldRole::Member)].map(|(id, role)| (entity(id), role)).into();
    records.worlds().ensure(&home).await?;
    records.relationships().interact(&entity("bob"), &entity("ana"), [], at(1)).await?;
    assert_eq!(records.person(entity("ana")).traces().await?.lists.len(), 3);
    erase(&stage, &records, "ana").await?;
    let of_bob = audience("r", "bob");
    let present = records.participants().of_room(&of_bob).await?;
    assert_eq!(present.iter().map(|one| one.entity.as_str()).collect::<Vec<_>>(), ["bob"]);
    let left = records.worlds().get(&of_bob).await?.expect("a world");
    assert_eq!((left.owner, left.roles.into_keys().collect::<Vec<_>>()), (None, vec![entity("bob")]));
    assert!(records.relationships().of(&of_bob).await?.is_empty());
    assert_forgotten(&stage, &records, "ana").await
}

async fn who_is_not_known_has_no_traces(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    assert_forgotten(&stage, &records, "nobody").await?;
    let refused = records.person(records.agent().entity()).traces().await.expect_err("the agent");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    Ok(())
}
