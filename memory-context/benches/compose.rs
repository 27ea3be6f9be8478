//! The default composition of an agent on SQLite, compared with the recalls that it makes.
//!
//! `cargo bench -p agent-memory-context` composes from 10,000 messages and from 1,000,000 (`MEMORY_BENCH_ROWS`), with
//! facts in each room. It ends with a table of medians and their ratios. Only the ratios are comparable: the figures
//! are those of one machine in one run.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::workload::Ratios;
use criterion::{Criterion, SamplingMode};
use futures::try_join;
use memory_context::prompt::MemoryLoadContext;
use memory_context::records::{
    AgentId, Audience, ChannelType, Entity, EntityId, FactQuery, MessageContent, NewFact, NewMessage, Records, Room,
    RoomId, World, WorldId,
};
use memory_context::state::{Character, ComposeOptions, Composer, ProviderStatus, Services, Turn};
use memory_context::tool::built_in_tools;
use memory_core::{MemoryProvider, NewMemory, Result, Timestamp, Trigger};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The messages are spread evenly over this many rooms, and the state of one of them is composed.
const ROOMS: usize = 100;
/// The people in each room, besides the agent.
const PEOPLE: usize = 5;
/// The rows of one batch while loading.
const BATCH: usize = 1_000;
/// How often both are done in one sample.
const TIMES: usize = 20;
/// The parts of the conversation: its newest messages, those of other rooms, and earlier ones that are relevant to the
/// message.
const LENGTH: usize = 32;
const INTERACTIONS: usize = 20;
const EARLIER: usize = 6;
/// The facts of each room, how many a question finds, and how many messages before the one received are a question too.
const FACTS: usize = 50;
const FOUND: usize = 6;
const BEFORE: usize = 5;

fn main() {
    let runtime = Runtime::new().expect("a runtime");
    let folder = TempDir::new().expect("a folder");
    let criterion = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(300));
    let mut criterion = criterion.measurement_time(Duration::from_secs(3)).configure_from_args();
    let most = std::env::var("MEMORY_BENCH_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(1_000_000);
    let mut ratios = Ratios::default();
    for rows in [10_000, most] {
        let url = format!("sqlite://{}", folder.path().join(format!("{rows}.db")).display());
        let (composer, turn) = runtime.block_on(load(&url, rows)).expect("loads");
        compare(&mut criterion, &runtime, &mut ratios, rows, &composer, &turn);
    }
    criterion.final_summary();
    println!("\nWhat an agent composes; the bare driver is the recalls alone.\n\n{}", ratios.table());
}

fn compare(
    criterion: &mut Criterion,
    runtime: &Runtime,
    ratios: &mut Ratios,
    rows: usize,
    composer: &Composer,
    turn: &Turn,
) {
    let name = format!("compose from {rows} messages");
    let options = ComposeOptions::with(["FACTS"]).skip_cache();
    let state = runtime.block_on(composer.compose_state(turn, &options));
    assert!(
        state.outcomes.iter().all(|one| matches!(one.status, ProviderStatus::Ok | ProviderStatus::Empty)),
        "{state:?}"
    );
    assert!(state.text.contains("tea number"), "facts are found");
    let mut group = criterion.benchmark_group(&name);
    group.sampling_mode(SamplingMode::Flat);
    group.bench_function("ours", |bencher| {
        bencher.iter_custom(|iterations| {
            let mut total = Duration::ZERO;
            for _ in 0..iterations {
                let start = Instant::now();
                for _ in 0..TIMES {
                    runtime.block_on(recall(&composer.services(), turn)).expect("recalls");
                }
                let alone = start.elapsed() / TIMES as u32;
                let start = Instant::now();
                for _ in 0..TIMES {
                    black_box(runtime.block_on(composer.compose_state(turn, &options)));
                }
                let taken = start.elapsed() / TIMES as u32;
                ratios.add(&name, Some(alone), taken);
                total += taken;
            }
            total
        });
    });
    group.finish();
}

/// The recalls of the providers, position by position and with the same concurrency, and nothing else.
async fn recall(services: &Services, turn: &Turn) -> Result<()> {
    let (records, content) = (services.records(), &turn.message.content);
    let audience = Audience::new(content.room.clone(), content.author.clone());
    let context = MemoryLoadContext::of(records.agent(), &turn.message);
    black_box(services.prompt_memory().expect("the default one").prefetch(&context).await?);

    // Each of the four tools for the room checks whether it would change something.
    let (participants, agent) = (records.participants(), records.agent().entity());
    let follows = || participants.get(&audience, &agent);
    black_box(try_join!(follows(), follows(), follows(), follows())?);

    let choices = records.choices();
    let roles = async {
        let world = records.worlds().get(&audience).await?;
        let owner = world.and_then(|world| world.owner);
        records.entities().named(&audience, owner).await
    };
    let settings = async {
        let world = records.worlds().get(&audience).await?.expect("the room has a world");
        records.settings().of(&audience, &world.id).await
    };
    let messages = records.messages();
    let facts = async {
        let recent = messages.until(&turn.message, BEFORE).await?;
        let before = recent.iter().filter(|message| message.id != turn.message.id);
        let before = before.map(|message| message.content.text.as_str()).collect::<Vec<_>>().join("\n");
        let [question, before] = [content.text.clone(), before].map(|text| FactQuery::new(text).limit(FOUND));
        let facts = records.facts();
        try_join!(facts.recall(&audience, &question), facts.recall(&audience, &before))
    };
    black_box(try_join!(choices.open(&audience), facts, roles, settings)?);

    let (mut shown, elsewhere) = try_join!(
        messages.until(&turn.message, LENGTH),
        messages.interactions(&audience, turn.message.created_at, INTERACTIONS),
    )?;
    let oldest = shown.last().expect("the message itself").created_at;
    shown.extend(messages.earlier(&turn.message, oldest, EARLIER).await?);
    let authors = shown.iter().chain(&elsewhere).map(|message| message.content.author.clone());
    black_box(records.entities().named(&audience, authors).await?);
    black_box(messages.until(&turn.message, INTERACTIONS).await?);
    Ok(())
}

/// A composer over this many messages, and the turn of the newest.
async fn load(url: &str, rows: usize) -> Result<(Composer, Turn)> {
    let provider: Arc<dyn MemoryProvider> = memory_runtime::open(url)?;
    provider.init().await?;
    let records = Records::new(Arc::clone(&provider), AgentId::parse("agent")?);
    let mut guild = World::new(WorldId::parse("guild")?);
    guild.owner = Some(person(0)?);
    records.worlds().ensure(&guild).await?;
    for number in 0..PEOPLE {
        records.entities().ensure(&Entity::new(person(number)?, format!("Person {number}"))).await?;
    }
    // The first message of each room shows how the others are stored in the ledger.
    let mut first = Vec::with_capacity(ROOMS);
    for number in 0..ROOMS {
        let mut room = Room::new(RoomId::parse(format!("room-{number}"))?, ChannelType::Group);
        room.world = Some(guild.id.clone());
        records.rooms().ensure(&room).await?;
        for number in 0..PEOPLE {
            records.participants().join(&room.id, &person(number)?).await?;
        }
        for number in 0..FACTS {
            let text = format!("Person {} likes tea number {number}", number % PEOPLE);
            let fact = NewFact::new(room.id.clone(), person(number % PEOPLE)?, person(0)?, text, time(number)?);
            records.facts().remember(fact).await?;
        }
        let message = records.messages().add(NewMessage::new(content(&room.id, 0)?, time(0)?)).await?;
        let memory = provider.get(message.id).await?.expect("it was stored");
        first.push((room.id, memory));
    }
    let mut batch = Vec::with_capacity(BATCH);
    for place in ROOMS..rows {
        let (room, memory) = &first[place % ROOMS];
        let trigger = Trigger::from_value(&content(room, place)?)?;
        let row = NewMemory::new(memory.space_id.clone(), trigger, time(place)?);
        batch.push(row.with_metadata(memory.metadata.clone()).with_status(memory.status));
        if batch.len() == BATCH {
            provider.store_many(std::mem::take(&mut batch)).await?;
        }
    }
    provider.store_many(batch).await?;
    let turn = Turn::new(records.messages().add(NewMessage::new(content(&first[0].0, rows)?, time(rows)?)).await?);
    let composer = Composer::builder(Services::new(records, Character::named("Alice"))).built_in();
    let composer = composer.parts(built_in_tools()).build()?;
    Ok((composer, turn))
}

fn content(room: &RoomId, place: usize) -> Result<MessageContent> {
    let text = format!("Message {place}: {}", "words that a person who likes tea says in a room ".repeat(5));
    let mut content = MessageContent::new(room.clone(), person(place / ROOMS % PEOPLE)?, text);
    content.channel_type = ChannelType::Group;
    Ok(content)
}

fn person(number: usize) -> Result<EntityId> {
    EntityId::parse(format!("person-{number}"))
}

fn time(place: usize) -> Result<Timestamp> {
    Timestamp::from_millis(1_600_000_000_000 + place as i64 * 1_000)
}
