//! Facts, the rooms in which they were learned, and to whom they are shown.

use memory_context::records::{Audience, FactQuery, NewFact, Records};
use memory_core::{Collection, Content, DocumentQuery, DocumentWrite, ErrorKind, MemoryId, Metadata};

use super::{at, audience, direct, entity, join, know, room};
use crate::stage::{CaseResult, Stage, cases};

cases! {
    a_fact_comes_back_with_its_subject_and_its_author,
    a_fact_that_is_known_is_not_kept_twice,
    racing_writers_keep_a_fact_once,
    a_fact_of_another_users_room_never_shows,
    a_group_does_not_hear_what_was_said_in_private,
    what_is_remembered_is_recalled_by_any_of_its_words,
    a_question_can_be_about_one_subject,
    any_text_is_a_question,
    facts_lie_where_no_plugin_reaches,
    a_document_that_is_no_fact_hides_none,
    a_fact_that_is_too_large_is_refused,
    agents_do_not_know_what_others_know,
    a_fact_has_a_kind_and_metadata,
    a_fact_is_replaced_and_removed,
    a_correction_that_is_not_valid_leaves_the_fact_free,
    a_fact_whose_labels_have_no_room_left_is_removed,
    a_fact_is_changed_where_it_became_known,
    racing_corrections_leave_one,
    racing_corrections_by_two_texts_leave_one_of_them,
}

async fn newest(records: &Records, of: Audience) -> Vec<String> {
    let facts = records.facts().newest(&of, 10).await.expect("facts");
    facts.into_iter().map(|fact| fact.text).collect()
}

async fn recalled(records: &Records, of: Audience, text: &str) -> Vec<String> {
    let found = records.facts().recall(&of, &FactQuery::new(text)).await.expect("facts");
    found.facts.into_iter().map(|found| found.fact.text).collect()
}

async fn a_fact_comes_back_with_its_subject_and_its_author(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let message = MemoryId::generate();
    let new = NewFact::new(room("r"), entity("ana"), records.agent().entity(), "Ana's birthday is in May", at(5));
    let kept = records.facts().remember(new.with_source(message)).await?;
    assert!(kept.is_new);
    let found = stage.records_elsewhere("a").facts().newest(&audience("r", "bob"), 10).await?;
    assert_eq!(found, [kept.fact]);
    let fact = &found[0];
    assert_eq!((&fact.subject, &fact.author), (&entity("ana"), &records.agent().entity()));
    assert_eq!((fact.source, fact.created_at, fact.room.as_str()), (Some(message), at(5), "r"));
    assert!(!format!("{fact:?}").contains("May"), "payloads stay out of logs");
    Ok(())
}

async fn a_fact_that_is_known_is_not_kept_twice(stage: Stage) -> CaseResult {
    let (records, elsewhere) = (stage.records("a"), stage.records_elsewhere("a"));
    let fact = |of_room: &str, subject: &str, author: &str, text: &str| {
        NewFact::new(room(of_room), entity(subject), entity(author), text, at(1))
    };
    let first = records.facts().remember(fact("r", "ana", "ana", "Likes tea")).await?;
    for same in ["Likes tea", "likes  TEA.", " Likes\ntea "] {
        let again = elsewhere.facts().remember(fact("r", "ana", "bob", same)).await?;
        assert_eq!((&again.fact, again.is_new), (&first.fact, false), "{same:?}");
    }
    for (of_room, subject, text) in [("r", "bob", "Likes tea"), ("s", "ana", "Likes tea"), ("r", "ana", "Likes teas")] {
        assert!(records.facts().remember(fact(of_room, subject, "ana", text)).await?.is_new, "{text}");
    }
    assert_eq!(newest(&records, audience("r", "ana")).await.len(), 3);
    Ok(())
}

async fn racing_writers_keep_a_fact_once(stage: Stage) -> CaseResult {
    let (records, elsewhere) = (stage.records("a"), stage.records_elsewhere("a"));
    let writers = (0..8).map(|number| {
        let handle = if number % 2 == 0 { &records } else { &elsewhere };
        let new = NewFact::new(room("r"), entity("ana"), entity("ana"), "Likes tea", at(number));
        async move { handle.facts().remember(new).await }
    });
    let kept = futures::future::try_join_all(writers).await?;
    assert_eq!(kept.iter().filter(|kept| kept.is_new).count(), 1);
    assert!(kept.iter().all(|one| one.fact == kept[0].fact));
    assert_eq!(newest(&records, audience("r", "ana")).await, ["Likes tea"]);
    Ok(())
}

async fn a_fact_of_another_users_room_never_shows(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let agent = records.agent().as_str().to_owned();
    direct(&records, "dm-ana", &["ana", &agent]).await;
    direct(&records, "dm-bob", &["bob", &agent]).await;
    know(&records, "dm-bob", "bob", "Bob has a secret garden", 1).await;
    // A fact about ana from bob's room is bob's to tell.
    let of_ana = NewFact::new(room("dm-bob"), entity("ana"), entity("bob"), "Ana owes Bob a garden", at(2));
    records.facts().remember(of_ana).await?;
    know(&records, "dm-ana", "ana", "Ana has a garden", 3).await;
    assert_eq!(newest(&records, audience("dm-ana", "ana")).await, ["Ana has a garden"]);
    assert_eq!(recalled(&records, audience("dm-ana", "ana"), "garden").await, ["Ana has a garden"]);
    let about = FactQuery::new("garden").about(entity("bob"));
    assert!(records.facts().recall(&audience("dm-ana", "ana"), &about).await?.facts.is_empty());
    assert_eq!(newest(&records, audience("dm-bob", "bob")).await.len(), 2);
    assert!(newest(&records, audience("dm-eve", "eve")).await.is_empty());
    Ok(())
}

async fn a_group_does_not_hear_what_was_said_in_private(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    direct(&records, "dm-ana", &["ana"]).await;
    join(&records, "group", &["ana", "bob"]).await;
    know(&records, "dm-ana", "ana", "Ana looks for a new job", 1).await;
    know(&records, "group", "ana", "Ana has a job at the harbour", 2).await;
    let both = ["Ana has a job at the harbour", "Ana looks for a new job"];
    assert_eq!(newest(&records, audience("dm-ana", "ana")).await, both);
    assert_eq!(newest(&records, audience("group", "ana")).await, both[..1]);
    assert_eq!(recalled(&records, audience("group", "ana"), "job").await, both[..1]);
    assert_eq!(recalled(&records, audience("dm-ana", "ana"), "job").await.len(), 2);
    records.participants().leave(&room("group"), &entity("bob")).await?;
    assert_eq!(newest(&records, audience("group", "ana")).await, both[..1], "others may listen");
    Ok(())
}

async fn what_is_remembered_is_recalled_by_any_of_its_words(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    for (number, text) in ["Ana likes green tea", "Ana has a cat", "The deadline is Friday"].iter().enumerate() {
        know(&records, "r", "ana", text, number as i64).await;
    }
    assert_eq!(recalled(&records, audience("r", "ana"), "And her CAT?").await, ["Ana has a cat"]);
    assert_eq!(recalled(&records, audience("r", "ana"), "green").await, ["Ana likes green tea"]);
    assert_eq!(
        recalled(&records, audience("r", "ana"), "room subject author ana").await.len(),
        2,
        "only the texts count"
    );
    let few = records.facts().recall(&audience("r", "ana"), &FactQuery::new("ana").limit(1)).await?;
    assert_eq!((few.facts.len(), few.unembedded), (1, 3), "nothing makes vectors");
    assert_eq!(few.facts[0].similarity, None);
    assert!(records.facts().recall(&audience("r", "ana"), &FactQuery::new("ana").limit(0)).await?.facts.is_empty());
    Ok(())
}

async fn a_question_can_be_about_one_subject(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    for number in 0..5 {
        know(&records, "r", "bob", &format!("Bob likes tea number {number}"), number).await;
    }
    know(&records, "r", "ana", "Ana dislikes one tea", 0).await;
    let query = FactQuery::new("tea").about(entity("ana")).limit(1);
    let found = records.facts().recall(&audience("r", "bob"), &query).await?;
    assert_eq!(found.facts.len(), 1);
    assert_eq!(found.facts[0].fact.text, "Ana dislikes one tea", "what is left out takes nobody's place");
    Ok(())
}

async fn any_text_is_a_question(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    know(&records, "r", "ana", "Ana likes tea", 1).await;
    let long = format!("tea {}", (0..2_000).map(|number| format!("word{number} ")).collect::<String>());
    for (text, found) in [
        ("", 0),
        (" \n", 0),
        ("?!", 0),
        ("' OR x=x; --", 0),
        ("tea* AND (", 1),
        ("\"tea\"", 1),
        (&long, 1),
        ("coffee", 0),
    ] {
        assert_eq!(recalled(&records, audience("r", "ana"), text).await.len(), found, "{text:.20}");
    }
    Ok(())
}

/// The collections with records of the room `r`.
async fn holding(stage: &Stage, records: &Records) -> memory_core::Result<Vec<Collection>> {
    let documents = stage.provider().documents();
    let mine = format!("spaceId = '{}'", records.room_space(&room("r"))?);
    let mut holding = Vec::new();
    for collection in documents.collections().await? {
        let query = DocumentQuery::builder(collection.clone()).all().filter_text(&mine).build()?;
        if !documents.query(&query).await?.documents.is_empty() {
            holding.push(collection);
        }
    }
    Ok(holding)
}

async fn facts_lie_where_no_plugin_reaches(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    know(&records, "r", "ana", "Ana likes xyzzy", 1).await;
    let holding = holding(&stage, &records).await?;
    assert_eq!(holding.len(), 1);
    assert!(holding.iter().all(Collection::is_reserved));
    Ok(())
}

async fn a_document_that_is_no_fact_hides_none(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    know(&records, "r", "ana", "Ana likes tea", 1).await;
    let [collection] = &holding(&stage, &records).await?[..] else { panic!("one collection") };
    let foreign =
        DocumentWrite::new(collection.clone(), records.room_space(&room("r"))?, Content::parse("tea")?, at(2));
    stage.provider().documents().put(foreign).await?;
    assert_eq!(newest(&records, audience("r", "ana")).await, ["Ana likes tea"]);
    assert_eq!(records.facts().newest(&audience("r", "ana"), 1).await?.len(), 1, "it takes no place either");
    assert_eq!(recalled(&records, audience("r", "ana"), "tea").await, ["Ana likes tea"]);
    Ok(())
}

async fn a_fact_that_is_too_large_is_refused(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let fact = |text: String| NewFact::new(room("r"), entity("ana"), entity("ana"), text, at(1));
    let error = records.facts().remember(fact("x".repeat(Content::MAX_BYTES + 1))).await.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let error = records.facts().remember(fact("a\0b".into())).await.expect_err("not valid");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(newest(&records, audience("r", "ana")).await.is_empty());
    Ok(())
}

async fn agents_do_not_know_what_others_know(stage: Stage) -> CaseResult {
    let (one, other) = (stage.records("a"), stage.records("b"));
    know(&one, "r", "ana", "Ana likes tea", 1).await;
    assert!(newest(&other, audience("r", "ana")).await.is_empty());
    assert!(recalled(&other, audience("r", "ana"), "tea").await.is_empty());
    know(&other, "r", "ana", "Ana likes tea", 1).await;
    assert_eq!(newest(&other, audience("r", "ana")).await, ["Ana likes tea"], "each has its own");
    Ok(())
}

async fn a_fact_has_a_kind_and_metadata(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let new = |text: &str| NewFact::new(room("r"), entity("ana"), entity("ana"), text, at(1));
    let metadata: memory_core::Metadata = r#"{"confidence":0.9,"seen":["a"]}"#.parse()?;
    let kept =
        records.facts().remember(new("Tea is good").with_kind("opinion").with_metadata(metadata.clone())).await?;
    records.facts().remember(new("Tea is a drink")).await?;
    let mut found = stage.records_elsewhere("a").facts().newest(&audience("r", "ana"), 10).await?;
    found.sort_by_key(|fact| fact.kind.clone());
    assert_eq!((found[0].kind.as_str(), found[0].metadata.as_str()), ("", "{}"));
    assert_eq!(found[1], kept.fact);
    assert_eq!((found[1].kind.as_str(), &found[1].metadata), ("opinion", &metadata));
    let query = FactQuery::new("tea").of_kind("opinion").about(entity("ana"));
    let opinions = records.facts().recall(&audience("r", "ana"), &query).await?;
    assert_eq!(opinions.facts.iter().map(|found| &found.fact).collect::<Vec<_>>(), [&kept.fact]);
    let refused = records.facts().remember(new("a").with_kind("x".repeat(65))).await.expect_err("too long");
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    Ok(())
}

async fn a_fact_is_replaced_and_removed(stage: Stage) -> CaseResult {
    let (records, elsewhere) = (stage.records("a"), stage.records_elsewhere("a"));
    let new = |text: &str| NewFact::new(room("r"), entity("ana"), entity("ana"), text, at(1));
    let lima = records.facts().remember(new("Ana lives in Lima")).await?.fact;
    assert_eq!(elsewhere.facts().find(&audience("r", "bob"), " ana lives in LIMA.").await?, Some(lima.clone()));
    assert_eq!(elsewhere.facts().find(&audience("s", "bob"), "Ana lives in Lima").await?, None, "another room");
    let cusco = elsewhere.facts().replace(&lima, new("Ana lives in Cusco")).await?;
    assert!(cusco.is_new);
    assert_eq!(newest(&records, audience("r", "ana")).await, ["Ana lives in Cusco"]);
    // Repeated, as after a lost answer, it changes nothing.
    assert_eq!(records.facts().replace(&lima, new("Ana lives in Cusco")).await?.fact, cusco.fact);
    assert_eq!(records.facts().replace(&cusco.fact, new("ana lives in cusco")).await?.fact, cusco.fact, "the same");
    assert_eq!(newest(&records, audience("r", "ana")).await, ["Ana lives in Cusco"]);
    let late = records.facts().replace(&lima, new("Ana lives in Quito")).await.expect_err("it is gone");
    assert_eq!(late.kind(), ErrorKind::Conflict);
    assert_eq!(
        newest(&elsewhere, audience("r", "ana")).await,
        ["Ana lives in Cusco"],
        "what came too late is not kept"
    );

    records.facts().remove(&cusco.fact).await?;
    assert!(newest(&elsewhere, audience("r", "ana")).await.is_empty());
    assert!(recalled(&elsewhere, audience("r", "ana"), "Cusco").await.is_empty());
    assert_eq!(elsewhere.facts().remove(&cusco.fact).await.expect_err("gone").kind(), ErrorKind::NotFound);
    assert!(records.facts().remember(new("Ana lives in Cusco")).await?.is_new, "it can be learned again");
    Ok(())
}

async fn a_correction_that_is_not_valid_leaves_the_fact_free(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let new = |text: &str| NewFact::new(room("r"), entity("ana"), entity("ana"), text, at(1));
    let wrong = records.facts().remember(new("Ana is 3")).await?.fact;
    let invalid = records.facts().replace(&wrong, new("Ana is \0")).await.expect_err("not valid");
    assert_eq!(invalid.kind(), ErrorKind::InvalidInput);
    let right = records.facts().replace(&wrong, new("Ana is 30")).await?.fact;
    let large = new(&"x".repeat(Content::MAX_BYTES + 1));
    assert_eq!(records.facts().replace(&right, large).await.expect_err("too large").kind(), ErrorKind::TooLarge);
    records.facts().remove(&right).await?;
    assert!(newest(&records, audience("r", "ana")).await.is_empty());
    Ok(())
}

async fn a_fact_whose_labels_have_no_room_left_is_removed(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let new = |text: &str| NewFact::new(room("r"), entity("ana"), entity("ana"), text, at(1));
    let labels = r#"{"author":"ana","metadata":{"note":""},"room":"r","subject":"ana"}"#.len();
    let note = "x".repeat(Metadata::MAX_BYTES - labels);
    let metadata: Metadata = format!(r#"{{"note":"{note}"}}"#).parse()?;
    let full = async |text: &str| records.facts().remember(new(text).with_metadata(metadata.clone())).await;
    records.facts().remove(&full("Ana is 3").await?.fact).await?;
    let wrong = full("Ana is 4").await?.fact;
    records.facts().replace(&wrong, new("Ana is 30")).await?;
    assert_eq!(newest(&records, audience("r", "ana")).await, ["Ana is 30"]);
    Ok(())
}

async fn a_fact_is_changed_where_it_became_known(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    direct(&records, "dm-ana", &["ana"]).await;
    join(&records, "group", &["ana", "bob"]).await;
    know(&records, "dm-ana", "ana", "Ana looks for a job", 1).await;
    know(&records, "group", "ana", "Ana has a boat", 2).await;
    assert_eq!(
        newest(&records, audience("dm-ana", "ana")).await,
        ["Ana has a boat", "Ana looks for a job"],
        "both show"
    );
    for (of_room, text, is_found) in [
        ("dm-ana", "Ana looks for a job", true),
        ("dm-ana", "Ana has a boat", false),
        ("group", "Ana has a boat", true),
        ("group", "Ana looks for a job", false),
    ] {
        let found = records.facts().find(&audience(of_room, "ana"), text).await?;
        assert_eq!(found.is_some(), is_found, "{text} from {of_room}");
    }
    Ok(())
}

async fn racing_corrections_leave_one(stage: Stage) -> CaseResult {
    let (records, elsewhere) = (stage.records("a"), stage.records_elsewhere("a"));
    let new = |text: String| NewFact::new(room("r"), entity("ana"), entity("ana"), text, at(1));
    let wrong = records.facts().remember(new("Ana is 3".into())).await?.fact;
    let writers = (0..8).map(|number| {
        let handle = if number % 2 == 0 { &records } else { &elsewhere };
        let (wrong, new) = (&wrong, new(format!("Ana is {}", 30 + number)));
        async move { handle.facts().replace(wrong, new).await }
    });
    let writers: Vec<_> = writers.collect();
    let outcomes = futures::future::join_all(writers).await;
    let (done, late): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!((done.len(), late.len()), (1, 7));
    assert!(late.into_iter().all(|late| late.is_err_and(|error| error.kind() == ErrorKind::Conflict)));
    let kept = done.into_iter().next().expect("one")?.fact.text;
    assert_eq!(newest(&records, audience("r", "ana")).await, [kept]);
    Ok(())
}

async fn racing_corrections_by_two_texts_leave_one_of_them(stage: Stage) -> CaseResult {
    let (records, elsewhere) = (stage.records("a"), stage.records_elsewhere("a"));
    let new = |text: String| NewFact::new(room("r"), entity("ana"), entity("ana"), text, at(1));
    for round in 0..5 {
        let wrong = records.facts().remember(new(format!("Ana is {round}"))).await?.fact;
        let writers = (0..8).map(|number| {
            let handle = if number % 2 == 0 { &records } else { &elsewhere };
            let (wrong, new) = (&wrong, new(format!("Ana is {}", 30 + number / 2 % 2)));
            async move { handle.facts().replace(wrong, new).await }
        });
        let writers: Vec<_> = writers.collect();
        let outcomes = futures::future::join_all(writers).await;
        let (done, late): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert!(late.into_iter().all(|late| late.is_err_and(|error| error.kind() == ErrorKind::Conflict)));
        let kept: Vec<_> = done.into_iter().map(|done| done.map(|kept| kept.fact)).collect::<Result<_, _>>()?;
        assert!(kept.iter().all(|one| one.id == kept[0].id), "one text wins");
        assert_eq!(newest(&records, audience("r", "ana")).await, [kept[0].text.clone()], "in round {round}");
        records.facts().remove(&kept[0]).await?;
    }
    Ok(())
}
