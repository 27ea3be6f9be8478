//! The members of a room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memory_context::agent::Agent;
use memory_context::core::filter::Field;
use memory_context::core::{Clock, Collection, DocumentQuery, Erasure, InMemory, MemoryProvider, SystemClock};
use memory_context::flow::platform::Origin;
use memory_context::flow::{End, Incoming, Why};
use memory_context::records::{Audience, ChannelType, Entity, EntityId, NewMessage, Room, RoomId};
use memory_context::{Error, ErrorKind, Result};

use crate::engine::{Around, Call, Wrapped};
use crate::model::{Model, within};
use crate::stage::Stage;

/// Refuses puts of documents after the first ones.
#[derive(Debug, Clone)]
struct Refusing(Arc<AtomicUsize>);

impl Around for Refusing {
    async fn around<T: Send>(&self, call: Call, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let one_less = |left: usize| left.checked_sub(1);
        if call == Call::PutDocument && self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err() {
            return Err(Error::new(ErrorKind::Unauthorized, "as a test"));
        }
        work.await
    }
}

fn kitchen() -> Room {
    Room::new(RoomId::parse("kitchen").expect("valid"), ChannelType::Group)
}

fn person(id: &str) -> Entity {
    Entity::new(EntityId::parse(id).expect("valid"), id)
}

/// The origin of what Bo says in the kitchen.
fn bos() -> Origin {
    Origin { world: None, room: kitchen(), author: person("bo") }
}

async fn present(agent: &Agent) -> Vec<String> {
    let audience = Audience::new(kitchen().id, person("ana").id);
    let present = agent.records().participants().of_room(&audience).await.expect("read");
    present.iter().map(|participant| participant.entity.to_string()).collect()
}

/// If a build ends before a whole room is stored, the next one completes it.
#[tokio::test]
async fn a_room_of_the_builder_has_its_members_wherever_a_build_was_cut() {
    let model = Model::start().await;
    let build = async |engine: Arc<InMemory>, puts: usize| {
        let provider = Wrapped { engine, around: Refusing(Arc::new(AtomicUsize::new(puts))) };
        let builder = Agent::builder("ada").memory(Arc::new(provider)).model(&model.url, "small");
        builder.room(kitchen(), [person("ana"), person("bo")]).build().await
    };
    for puts in 0.. {
        let engine = Arc::new(InMemory::new());
        let first = build(Arc::clone(&engine), puts).await;
        let second = build(engine, usize::MAX).await.expect("an agent");
        assert_eq!(present(&second).await, ["ada", "ana", "bo"], "behind {puts} puts");
        within(second.shutdown()).await.expect("closes");
        if let Ok(first) = first {
            assert!(puts > 3, "a room, two people and their places are kept");
            within(first.shutdown()).await.expect("closes");
            return;
        }
    }
}

#[tokio::test]
async fn what_is_brought_once_more_puts_nobody_back_into_a_room() {
    let stage = Stage::new().await;
    let brought = async |id: &str| {
        let message = NewMessage::new(bos().message("Hi"), SystemClock.now()).with_external_id(id);
        stage.agent.observe(bos(), message).await.expect("kept")
    };
    let first = brought("1").await;
    stage.agent.records().participants().leave(&kitchen().id, &person("bo").id).await.expect("left");
    assert_eq!(brought("1").await, first);
    assert_eq!(present(&stage.agent).await, ["ada"]);
    brought("2").await;
    assert_eq!(present(&stage.agent).await, ["ada", "bo"]);
    stage.ends().await;
}

/// Another process has not seen the author and the room yet.
#[tokio::test]
async fn what_another_process_brings_once_more_puts_nobody_back_into_a_room() {
    let stage = Stage::new().await;
    let incoming = |id: &str| {
        let message = NewMessage::new(bos().message("Hi"), SystemClock.now()).with_external_id(id);
        Incoming { message, is_addressed: false }
    };
    let first = stage.agent.observe(bos(), incoming("1").message).await.expect("kept");
    let records = stage.agent.records();
    records.participants().leave(&kitchen().id, &person("bo").id).await.expect("left");
    let restarted = async || {
        let builder = Agent::builder("ada").memory(stage.url()).model(&stage.model.url, "small");
        builder.build().await.expect("an agent")
    };
    let other = restarted().await;
    let again = within(other.receive(bos(), incoming("1"))).await.expect("known");
    assert_eq!((again.end, present(&other).await), (End::Ignored(Why::Known), vec!["ada".to_owned()]));
    within(other.shutdown()).await.expect("closes");
    let other = restarted().await;
    assert_eq!(other.observe(bos(), incoming("1").message).await.expect("known"), first);
    assert_eq!(present(&other).await, ["ada"]);
    within(other.shutdown()).await.expect("closes");

    let query = DocumentQuery::builder(Collection::parse("_entities").expect("valid")).all();
    let query = query.filter(Field::metadata(["entity"]).eq("bo"));
    assert_eq!(stage.erases(&Erasure::documents(query, "a test").expect("valid")).await, 1);
    assert_eq!(stage.erases(&Erasure::records([first.into()], "a test").expect("valid")).await, 1);
    let other = restarted().await;
    let failed = within(other.receive(bos(), incoming("1"))).await.expect_err("it was erased");
    assert!(failed.message().contains("idempotency key"), "{failed}");
    other.observe(bos(), incoming("1").message).await.expect_err("it was erased");
    assert_eq!(present(&other).await, ["ada"]);
    let audience = Audience::new(kitchen().id, person("bo").id);
    assert_eq!(other.records().entities().get(&audience, &audience.entity).await.expect("read"), None);
    within(other.shutdown()).await.expect("closes");
    stage.ends().await;
}

/// The call was cut off after the message was stored, and the author is known from another room.
#[tokio::test]
async fn who_is_known_from_elsewhere_is_put_into_a_new_room_by_a_repeated_delivery() {
    for (was_there, puts_before, leaves) in [(false, 0, false), (false, 1, false), (true, 1, false), (false, 1, true)] {
        let model = Model::start().await;
        let puts = Arc::new(AtomicUsize::new(usize::MAX));
        let provider = Wrapped { engine: Arc::new(InMemory::new()), around: Refusing(Arc::clone(&puts)) };
        let agent = Agent::builder("ada").memory(Arc::new(provider)).model(&model.url, "small").build().await;
        let agent = agent.expect("an agent");
        let hall = Room::new(RoomId::parse("hall").expect("valid"), ChannelType::Group);
        let elsewhere = Origin { world: None, room: hall, author: person("bo") };
        let left = async || agent.records().participants().leave(&kitchen().id, &person("bo").id).await.expect("left");
        let brought = async |origin: Origin, id: &str| {
            let message = NewMessage::new(origin.message("Hi"), SystemClock.now()).with_external_id(id);
            agent.observe(origin, message).await
        };
        brought(elsewhere, "1").await.expect("kept");
        brought(Origin { author: person("ana"), ..bos() }, "2").await.expect("kept");
        if was_there {
            brought(bos(), "3").await.expect("kept");
            left().await;
        }
        puts.store(puts_before, Ordering::SeqCst);
        brought(bos(), "4").await.expect_err("cut off");
        assert_eq!(present(&agent).await, ["ada", "ana"]);
        puts.store(usize::MAX, Ordering::SeqCst);
        if leaves {
            left().await;
        }
        brought(bos(), "4").await.expect("known");
        let expected = if leaves { &["ada", "ana"][..] } else { &["ada", "ana", "bo"] };
        assert_eq!(present(&agent).await, expected, "cut off behind {puts_before} puts");
        within(agent.shutdown()).await.expect("closes");
    }
}

/// Erases Bo after some more reads of documents.
#[derive(Debug, Clone)]
struct Erasing {
    engine: Arc<InMemory>,
    reads: Arc<AtomicUsize>,
}

impl Around for Erasing {
    async fn around<T: Send>(&self, call: Call, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let done = work.await;
        let one_less = |left: usize| left.checked_sub(1);
        let left =
            (call == Call::GetDocument).then(|| self.reads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less));
        if left == Some(Ok(1)) {
            let query = DocumentQuery::builder(Collection::parse("_entities").expect("valid")).all();
            let query = query.filter(Field::metadata(["entity"]).eq("bo"));
            let erasure = Erasure::documents(query, "a test").expect("valid");
            assert_eq!(self.engine.erase(&erasure).await.expect("erased").records.len(), 1);
        }
        done
    }
}

#[tokio::test]
async fn who_is_erased_during_a_repeated_delivery_is_not_kept_again() {
    let (model, engine, reads) = (Model::start().await, Arc::new(InMemory::new()), Arc::new(AtomicUsize::new(0)));
    let around = Erasing { engine: Arc::clone(&engine), reads: Arc::clone(&reads) };
    let builder = Agent::builder("ada").memory(Arc::new(Wrapped { engine, around })).model(&model.url, "small");
    let agent = builder.build().await.expect("an agent");
    let brought = async || {
        let message = NewMessage::new(bos().message("Hi"), SystemClock.now()).with_external_id("1");
        agent.observe(bos(), message).await.expect("kept")
    };
    let (first, audience) = (brought().await, Audience::new(kitchen().id, person("bo").id));
    let known = async || agent.records().entities().get(&audience, &audience.entity).await.expect("read");
    assert_eq!(known().await, Some(person("bo")));
    // The room, and the author.
    reads.store(2, Ordering::SeqCst);
    assert_eq!(brought().await, first);
    assert_eq!(known().await, None);
    within(agent.shutdown()).await.expect("closes");
}

#[tokio::test]
async fn who_was_erased_and_comes_back_is_known_again() {
    let stage = Stage::new().await;
    let (records, audience) = (stage.agent.records(), Audience::new(kitchen().id, person("bo").id));
    let brought = async |id: &str| {
        let message = NewMessage::new(bos().message("Hi"), SystemClock.now()).with_external_id(id);
        stage.agent.observe(bos(), message).await.expect("kept")
    };
    brought("1").await;
    for (collection, label, named) in [("_entities", "entity", "bo"), ("_rooms", "room", "kitchen")] {
        let query = DocumentQuery::builder(Collection::parse(collection).expect("valid")).all();
        let query = query.filter(Field::metadata([label]).eq(named));
        let erasure = Erasure::documents(query, "a test").expect("valid");
        assert_eq!(stage.erases(&erasure).await, 1, "{collection}");
        brought(collection).await;
        assert_eq!(records.rooms().get(&audience).await.expect("read"), Some(kitchen()));
        let known = records.entities().get(&audience, &audience.entity).await.expect("read");
        assert_eq!(known, Some(person("bo")));
    }
    stage.ends().await;
}
