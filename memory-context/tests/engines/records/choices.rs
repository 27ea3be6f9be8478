//! Choices that wait for somebody's decision.

use memory_context::records::{AWAITING_CHOICE, Choice, ChoiceOption, NewChoice, Records};
use memory_core::{Context, Erasure, ErrorKind, Memory, MemoryId, Metadata, NewMemory, SpaceId, Status, Trigger};
use serde_json::{Value, json};

use super::{at, audience, room, said};
use crate::stage::{CaseResult, Stage, cases};

cases! {
    a_choice_waits_in_its_room_until_it_is_made,
    an_option_that_is_not_there_is_refused,
    a_choice_is_made_once,
    a_choice_that_was_erased_waits_no_more,
    a_tagged_task_of_the_room_is_a_choice,
    what_else_is_open_in_the_room_is_none,
    a_page_that_is_full_is_not_the_end,
}

fn option(name: &str) -> ChoiceOption {
    ChoiceOption { name: name.into(), description: format!("to {name}") }
}

async fn ask(records: &Records, of_room: &str, prompt: &str) -> Choice {
    let new = NewChoice::new(room(of_room), prompt, ["yes", "no"].map(option), at(1));
    records.choices().ask(new).await.expect("a choice")
}

async fn stored(stage: &Stage, id: MemoryId) -> Memory {
    stage.provider().get(id).await.expect("a read").expect("a row of the ledger")
}

async fn a_choice_waits_in_its_room_until_it_is_made(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let (first, second) = (ask(&records, "r", "Post it?").await, ask(&records, "r", "Really?").await);
    ask(&records, "r-1", "Elsewhere?").await;
    ask(&stage.records("b"), "r", "Somebody else's?").await;
    let open = stage.records_elsewhere("a").choices().open(&audience("r", "ana")).await?;
    assert_eq!(open, [first.clone(), second.clone()]);
    assert_eq!((open[0].prompt.as_str(), &open[0].options[1]), ("Post it?", &option("no")));
    records.choices().choose(&audience("r", "ana"), first.id, "no").await?;
    assert_eq!(records.choices().open(&audience("r", "ana")).await?, [second]);
    let memory = stored(&stage, first.id).await;
    assert_eq!(memory.status, Status::Completed);
    let context: Value = memory.context.expect("what was chosen").to_value()?;
    assert_eq!(context, json!({ "chosen": "no", "by": "ana" }));
    Ok(())
}

async fn an_option_that_is_not_there_is_refused(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let choice = ask(&records, "r", "Post it?").await;
    for (of, id, name, kind) in [
        (audience("r", "ana"), choice.id, "maybe", ErrorKind::InvalidInput),
        (audience("r", "ana"), choice.id, "", ErrorKind::InvalidInput),
        (audience("s", "ana"), choice.id, "yes", ErrorKind::NotFound),
        (audience("r", "ana"), MemoryId::generate(), "yes", ErrorKind::NotFound),
    ] {
        let error = records.choices().choose(&of, id, name).await.expect_err("refused");
        assert_eq!(error.kind(), kind, "{name}");
    }
    let error =
        stage.records("b").choices().choose(&audience("r", "ana"), choice.id, "yes").await.expect_err("another's");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(stored(&stage, choice.id).await.status, Status::Pending, "it waits on");
    for options in [&[][..], &["yes", "yes"]] {
        let new = NewChoice::new(room("r"), "?", options.iter().map(|name| option(name)), at(1));
        assert_eq!(records.choices().ask(new).await.expect_err("refused").kind(), ErrorKind::InvalidInput);
    }
    Ok(())
}

async fn a_choice_is_made_once(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let choice = ask(&records, "r", "Post it?").await;
    let of = audience("r", "ana");
    let (one, other) = (records.choices(), stage.records_elsewhere("a"));
    let results =
        tokio::join!(one.choose(&of, choice.id, "yes"), async { other.choices().choose(&of, choice.id, "no").await });
    let errors: Vec<_> = [results.0, results.1].into_iter().filter_map(Result::err).collect();
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert!(matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound), "{error}");
    Ok(())
}

async fn a_choice_that_was_erased_waits_no_more(stage: Stage) -> CaseResult {
    let (records, of) = (stage.records("a"), audience("r", "ana"));
    let choice = ask(&records, "r", "Post it?").await;
    let erasure = Erasure::records([choice.id.into()], "a test")?;
    assert_eq!(stage.provider().erase(&erasure).await?.records.len(), 1);
    let error = records.choices().choose(&of, choice.id, "yes").await.expect_err("nothing is there");
    assert_eq!((error.kind(), error.message()), (ErrorKind::NotFound, "no such choice is known"));
    assert!(records.choices().open(&of).await?.is_empty());
    Ok(())
}

/// Whoever submits a task to a runtime can have it wait for a choice.
async fn a_tagged_task_of_the_room_is_a_choice(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let space = SpaceId::parse(format!("{}/1", records.task_space(&room("r"))?))?;
    let metadata = json!({ "tags": ["x", AWAITING_CHOICE], "options": [{ "name": "post" }, { "name": "cancel" }] });
    let task = NewMemory::new(space, Trigger::parse("{}")?, at(1)).with_status(Status::Running);
    let id = stage.provider().store(task.with_metadata(Metadata::parse(&metadata.to_string())?)).await?;
    let open = records.choices().open(&audience("r", "ana")).await?;
    let [choice] = &open[..] else { panic!("{open:?}") };
    assert_eq!((choice.id, choice.prompt.as_str()), (id, ""));
    assert_eq!(choice.options.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["post", "cancel"]);
    records.choices().choose(&audience("r", "ana"), id, "cancel").await?;
    assert!(records.choices().open(&audience("r", "ana")).await?.is_empty());
    Ok(())
}

async fn what_else_is_open_in_the_room_is_none(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let mut message = said("r", "ana", "hi", 1);
    message.status = Status::Pending;
    let message = records.messages().add(message).await?;
    let space = records.task_space(&room("r"))?;
    for metadata in [
        r#"{"tags":["x"],"options":[{"name":"a"}]}"#,
        r#"{"tags":["AWAITING_CHOICE"]}"#,
        r#"{"tags":"AWAITING_CHOICE","options":[{"name":"a"}]}"#,
        r#"{"tags":["AWAITING_CHOICE"],"options":"a"}"#,
    ] {
        let task = NewMemory::new(space.clone(), Trigger::parse("{}")?, at(1));
        let id = stage.provider().store(task.with_metadata(Metadata::parse(metadata)?)).await?;
        let error = records.choices().choose(&audience("r", "ana"), id, "a").await.expect_err("no choice");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{metadata}");
    }
    assert!(records.choices().open(&audience("r", "ana")).await?.is_empty());
    assert!(records.choices().choose(&audience("r", "ana"), message.id, "a").await.is_err());
    Ok(())
}

async fn a_page_that_is_full_is_not_the_end(stage: Stage) -> CaseResult {
    let records = stage.records("a");
    let labels = format!(r#"{{"tags":["{AWAITING_CHOICE}"],"options":[{{"name":"yes"}}]}}"#);
    // A page holds 16 MiB.
    for time in [1, 2, 3] {
        let large = Context::from_value(&"x".repeat(Context::MAX_BYTES - 100))?;
        let memory = NewMemory::new(records.task_space(&room("r"))?, Trigger::from_value(&time)?, at(time));
        stage.provider().store(memory.with_context(large).with_metadata(Metadata::parse(&labels)?)).await?;
    }
    assert_eq!(records.choices().open(&audience("r", "ana")).await?.len(), 3);
    Ok(())
}
