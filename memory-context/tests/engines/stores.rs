//! Which text an update and a prompt are about.

use std::sync::Arc;

use memory_context::prompt::MemoryStore::{Memory, User};
use memory_context::prompt::{COLLECTION, MemoryLoadContext, MemoryScope, MemoryUpdate};
use memory_context::records::{ChannelType, EntityId, MessageContent, NewMessage, RoomId};
use memory_core::filter::Field;
use memory_core::plugin::{Arguments, Scope};
use memory_core::{Collection, DocumentQuery, Erasure, ErrorKind, IdempotencyKey, SpaceId, Spaces, Timestamp};

use crate::stage::{CaseResult, Stage, add, cases, content};

cases! {
    the_two_stores_are_apart,
    a_personality_has_a_memory_of_its_own,
    personalities_share_the_global_memory,
    a_scope_without_a_personality_is_the_shared_one,
    the_profile_is_that_of_the_user_in_every_session,
    without_a_user_the_profile_is_that_of_the_session,
    agents_have_profiles_of_their_own,
    an_agent_begins_with_the_profile_of_all_agents,
    racing_agents_lose_nothing_of_the_profile_of_all_agents,
    a_profile_that_was_erased_begins_anew,
    an_id_that_looks_like_a_path_is_an_id,
    ids_that_join_alike_do_not_collide,
    an_id_that_is_not_valid_is_refused_before_anything_is_written,
    all_of_it_lies_in_one_reserved_collection,
    no_plugin_reaches_it,
}

async fn the_two_stores_are_apart(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    add(&memory, &context, User, "one").await;
    add(&memory, &context, Memory, "two").await;
    memory.sync(&context, &[MemoryUpdate::remove(User, "two"), MemoryUpdate::replace(Memory, "three")]).await?;
    assert_eq!(memory.read(&context, User).await?.as_deref(), Some("one"));
    assert_eq!(memory.read(&context, Memory).await?.as_deref(), Some("three"));
    Ok(())
}

async fn a_personality_has_a_memory_of_its_own(stage: Stage) -> CaseResult {
    let (memory, shared) = (stage.memory(), stage.context());
    let (ada, bob) = (stage.personality("ada"), stage.personality("bob"));
    add(&memory, &shared, Memory, "shared").await;
    add(&memory, &ada, Memory, "of ada").await;
    add(&memory, &bob, Memory, "of bob").await;
    add(&memory, &bob, User, "likes tea").await;
    for (context, own) in [(&shared, "shared"), (&ada, "of ada"), (&bob, "of bob")] {
        let expected = format!("## About You\n\nlikes tea\n\n## Memory\n\n{own}");
        assert_eq!(content(&memory, context).await, Some(expected));
    }
    memory.sync(&ada, &[MemoryUpdate::replace(Memory, "")]).await?;
    assert_eq!(memory.read(&bob, Memory).await?.as_deref(), Some("of bob"));
    assert_eq!(memory.read(&shared, Memory).await?.as_deref(), Some("shared"));
    Ok(())
}

async fn personalities_share_the_global_memory(stage: Stage) -> CaseResult {
    let memory = stage.memory();
    let global = |id: &str| stage.context().with_personality(id, MemoryScope::Global);
    add(&memory, &global("ada"), Memory, "a").await;
    add(&memory, &global("bob"), Memory, "b").await;
    for context in [global("ada"), global("eve"), stage.context()] {
        assert_eq!(memory.read(&context, Memory).await?.as_deref(), Some("a\n\nb"));
    }
    Ok(())
}

async fn a_scope_without_a_personality_is_the_shared_one(stage: Stage) -> CaseResult {
    let memory = stage.memory();
    let mut nobody = stage.context();
    nobody.memory_scope = MemoryScope::PerPersonality;
    add(&memory, &nobody, Memory, "a").await;
    assert_eq!(memory.read(&stage.context(), Memory).await?.as_deref(), Some("a"));
    Ok(())
}

async fn the_profile_is_that_of_the_user_in_every_session(stage: Stage) -> CaseResult {
    let memory = stage.memory();
    let ana = |session: &str| MemoryLoadContext::new("s", stage.id(session), "cli").with_user(stage.id("ana"));
    add(&memory, &ana("1").with_personality("p", MemoryScope::PerPersonality), User, "likes tea").await;
    add(&memory, &ana("1"), Memory, "of session 1").await;
    assert_eq!(content(&memory, &ana("2")).await.as_deref(), Some("## About You\n\nlikes tea"));
    let bob = ana("1").with_user(stage.id("bob"));
    assert_eq!(content(&memory, &bob).await.as_deref(), Some("## Memory\n\nof session 1"));
    Ok(())
}

async fn without_a_user_the_profile_is_that_of_the_session(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    add(&memory, &context, User, "somebody").await;
    assert_eq!(memory.read(&context, User).await?.as_deref(), Some("somebody"));
    let namesake = MemoryLoadContext::new("s", stage.id("other"), "cli").with_user(context.session_key);
    assert_eq!(memory.read(&namesake, User).await?, None, "a user whose id is the key of that session");
    Ok(())
}

/// In direct conversations and in rooms of many.
async fn agents_have_profiles_of_their_own(stage: Stage) -> CaseResult {
    let memory = stage.memory();
    for channel_type in [ChannelType::Dm, ChannelType::Group] {
        let mut of = Vec::new();
        for agent in ["ada", "bob"] {
            let records = stage.records(agent);
            let room = RoomId::parse(stage.id(&format!("{channel_type:?}")))?;
            let mut content = MessageContent::new(room, EntityId::parse(stage.id("ana"))?, "hello");
            content.channel_type = channel_type;
            let message = records.messages().add(NewMessage::new(content, Timestamp::MIN)).await?;
            of.push(MemoryLoadContext::of(records.agent(), &message));
        }
        add(&memory, &of[0], User, "told to ada").await;
        assert_eq!(memory.read(&of[0], User).await?.as_deref(), Some("told to ada"));
        assert_eq!(memory.read(&of[1], User).await?, None, "{channel_type:?}");
    }
    Ok(())
}

async fn an_agent_begins_with_the_profile_of_all_agents(stage: Stage) -> CaseResult {
    let memory = stage.memory();
    for of_all in [stage.context(), stage.context().with_user(stage.id("ana"))] {
        let of = |agent: &str| of_all.clone().with_agent(stage.id(agent));
        let (turn, tea) = (IdempotencyKey::parse("turn 1")?, [MemoryUpdate::add(User, "likes tea")]);
        memory.sync_once(&of_all, &turn, &tea).await?;
        for agent in ["ada", "bob"] {
            assert_eq!(content(&memory, &of(agent)).await.as_deref(), Some("## About You\n\nlikes tea"));
        }
        // A batch that was applied before stays known.
        assert!(memory.sync_once(&of("ada"), &turn, &tea).await?.updates[0].repeated);
        let report = add(&memory, &of("ada"), User, "sings").await;
        assert_eq!(report.updates[0].revision.map(|revision| revision.get()), Some(2));
        assert!(memory.sync_once(&of("ada"), &turn, &tea).await?.updates[0].repeated);
        assert_eq!(memory.history(&of("ada"), User).await?.len(), 2);
        assert_eq!(memory.read(&of("ada"), User).await?.as_deref(), Some("likes tea\n\nsings"));
        add(&memory, &of_all, User, "dances").await;
        assert_eq!(memory.read(&of("ada"), User).await?.as_deref(), Some("likes tea\n\nsings"), "it has its own");
        assert_eq!(memory.read(&of("bob"), User).await?.as_deref(), Some("likes tea\n\ndances"));
        // A text that it emptied is its own as well, and its first change can be undone.
        memory.sync(&of("bob"), &[MemoryUpdate::replace(User, "")]).await?;
        assert_eq!(memory.read(&of("bob"), User).await?, None);
        memory.undo(&of("bob"), User).await?.expect("something to undo");
        assert_eq!(memory.read(&of("bob"), User).await?.as_deref(), Some("likes tea\n\ndances"));
        assert_eq!(memory.read(&of_all, User).await?.as_deref(), Some("likes tea\n\ndances"));
    }
    Ok(())
}

async fn racing_agents_lose_nothing_of_the_profile_of_all_agents(stage: Stage) -> CaseResult {
    let (memory, elsewhere, of_all) = (stage.memory(), stage.elsewhere(), stage.context());
    add(&memory, &of_all, User, "first").await;
    let of_ada = of_all.clone().with_agent(stage.id("ada"));
    let (one, two) = ([MemoryUpdate::add(User, "one")], [MemoryUpdate::add(User, "two")]);
    tokio::try_join!(memory.sync(&of_ada, &one), elsewhere.sync(&of_ada, &two))?;
    let text = memory.read(&of_ada, User).await?.unwrap_or_default();
    let mut lines: Vec<_> = text.split("\n\n").collect();
    lines.sort_unstable();
    assert_eq!(lines, ["first", "one", "two"]);
    assert_eq!(memory.read(&of_all, User).await?.as_deref(), Some("first"));
    Ok(())
}

async fn a_profile_that_was_erased_begins_anew(stage: Stage) -> CaseResult {
    let (memory, of_all, ada) = (stage.memory(), stage.context().with_user(stage.id("ana")), stage.id("ada"));
    let of_ada = of_all.clone().with_agent(&ada);
    add(&memory, &of_all, User, "likes tea").await;
    add(&memory, &of_ada, User, "sings").await;
    let own = DocumentQuery::builder(Collection::parse(COLLECTION)?).all();
    let own = Erasure::documents(own.filter(Field::metadata(["agent"]).eq(ada.as_str())), "a test")?;
    assert_eq!(stage.provider().erase(&own).await?.records.len(), 1);
    assert_eq!(memory.read(&of_ada, User).await?.as_deref(), Some("likes tea"));
    // An erased text is not replaced by a copy of the one that all agents share.
    let report = add(&memory, &of_ada, User, "dances").await;
    assert_eq!(report.updates[0].revision.map(|revision| revision.get()), Some(1));
    assert_eq!(memory.read(&of_ada, User).await?.as_deref(), Some("likes tea\n\ndances"));
    assert_eq!(memory.history(&of_ada, User).await?.len(), 1);
    assert_eq!(memory.read(&of_all, User).await?.as_deref(), Some("likes tea"));
    Ok(())
}

/// If ids became paths, these would escape from a folder or fall back to the shared memory.
async fn an_id_that_looks_like_a_path_is_an_id(stage: Stage) -> CaseResult {
    let memory = stage.memory();
    let ids = [
        "..",
        "../ada",
        "/etc/passwd",
        "ada/..",
        ".",
        "%2e%2e",
        "ada\\..",
        "'; DROP TABLE memories; --",
        "{$ne: 1}",
        "*",
    ];
    add(&memory, &stage.context(), Memory, "shared").await;
    for id in ids {
        add(&memory, &stage.personality(id), Memory, id).await;
    }
    for id in ids {
        assert_eq!(memory.read(&stage.personality(id), Memory).await?.as_deref(), Some(id));
    }
    assert_eq!(memory.read(&stage.context(), Memory).await?.as_deref(), Some("shared"));
    assert_eq!(memory.read(&stage.personality("ada"), Memory).await?, None);
    Ok(())
}

async fn ids_that_join_alike_do_not_collide(stage: Stage) -> CaseResult {
    let memory = stage.memory();
    let session = |key: &str| MemoryLoadContext::new("s", stage.id(key), "cli");
    let contexts = [
        session("a:b"),
        session("a").with_personality("b", MemoryScope::PerPersonality),
        session("a:b").with_personality("c", MemoryScope::PerPersonality),
        session("a").with_personality("b:c", MemoryScope::PerPersonality),
        session("a:b:c"),
        session("A:b"),
        session(" a:b"),
    ];
    for (number, context) in contexts.iter().enumerate() {
        add(&memory, context, Memory, &number.to_string()).await;
    }
    for (number, context) in contexts.iter().enumerate() {
        assert_eq!(memory.read(context, Memory).await?, Some(number.to_string()), "{context:?}");
    }
    Ok(())
}

async fn an_id_that_is_not_valid_is_refused_before_anything_is_written(stage: Stage) -> CaseResult {
    let memory = stage.memory();
    let update = [MemoryUpdate::add(Memory, "a"), MemoryUpdate::add(User, "b")];
    let long = "x".repeat(257);
    for (id, kind) in [("", ErrorKind::InvalidInput), ("a\nb", ErrorKind::InvalidInput), (&*long, ErrorKind::TooLarge)]
    {
        for context in [stage.context().with_user(id), stage.personality(id)] {
            let error = memory.sync(&context, &update).await.expect_err("refused");
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(memory.prefetch(&context).await.expect_err("refused").kind(), kind);
        }
    }
    assert_eq!(memory.prefetch(&stage.context()).await?, None);
    Ok(())
}

async fn all_of_it_lies_in_one_reserved_collection(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    add(&memory, &context, Memory, "a").await;
    add(&memory, &context, User, "b").await;
    let own = Collection::parse(COLLECTION)?;
    assert!(own.is_reserved());
    let documents = stage.provider().documents();
    let mine = format!("metadata.session = '{}'", context.session_key);
    for collection in documents.collections().await? {
        let query = DocumentQuery::builder(collection.clone()).all().filter_text(&mine).build()?;
        let found = documents.query(&query).await?.documents.len();
        assert_eq!(found, if collection == own { 2 } else { 0 }, "{collection}");
    }
    Ok(())
}

async fn no_plugin_reaches_it(stage: Stage) -> CaseResult {
    let (memory, context) = (stage.memory(), stage.context());
    add(&memory, &context, Memory, "secret").await;
    let collections = ["notes", COLLECTION].map(|name| Collection::parse(name).expect("valid"));
    let space = SpaceId::parse("prompt")?;
    let scope = Scope::new(Spaces::All).with_writable(space).with_collections(collections);
    let plugin = Arc::clone(stage.provider()).plugin();
    for (verb, arguments) in [
        ("memory:query", format!(r#"{{"collection": "{COLLECTION}"}}"#)),
        ("memory:add_document", format!(r#"{{"collection": "{COLLECTION}", "content": "forged"}}"#)),
        (
            "memory:remove_document",
            format!(r#"{{"collection": "{COLLECTION}", "where": "metadata.store = 'memory'"}}"#),
        ),
    ] {
        let call = plugin.executor(verb).expect("a standard verb");
        let error = call.call(&scope, &Arguments::parse(&arguments)?).await.expect_err(verb);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let query = plugin.executor("memory:query").expect("a standard verb");
    let everything = query.call(&scope, &Arguments::parse("{}")?).await?;
    assert!(!everything.as_str().contains("secret"));
    assert_eq!(memory.read(&context, Memory).await?.as_deref(), Some("secret"));
    Ok(())
}
