//! `erase`: records are removed for good, and a certificate says so.

use std::sync::Arc;

use common::lines::Running;
use common::moving::Follower;
use common::{Cli, eventually, stderr, stdout};
use memory_context::prompt::{MemoryLoadContext, MemoryStore, MemoryUpdate, PromptMemory};
use memory_context::records::{
    Audience, ChannelType, Entity, EntityId, MessageContent, NewFact, NewMessage, Records, Room, RoomId,
};
use memory_core::{Clock as _, MemoryProvider, SystemClock};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

mod common;

fn store(cli: &Cli, space: &str, trigger: &str) -> String {
    cli.ok(&["store", "--space", space, "--trigger", trigger]).trim().to_owned()
}

fn put(cli: &Cli, collection: &str, id: &str, space: &str) {
    cli.ok(&["document", "put", "--collection", collection, "--id", id, "--space", space, "--content", "xyzzy"]);
}

fn certificate(cli: &Cli, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(cli.path(name)).expect("a file")).expect("JSON")
}

/// The ids of a certificate's memories are in ascending order.
fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort_unstable();
    ids
}

#[test]
fn what_is_selected_goes_for_good_and_is_certified() {
    let cli = Cli::new();
    let ids = ["1", "2", "3"].map(|number| store(&cli, "guild1-ana", &format!(r#"{{"text":"xyzzy {number}"}}"#)));
    cli.ok(&["update", &ids[0], "--context", r#""xyzzy""#]);
    let other = store(&cli, "guild1-anastasia", r#""xyzzy""#);
    put(&cli, "notes", "n", "guild1-ana-x");
    put(&cli, "drafts", "d", "guild1-ana");
    put(&cli, "notes", "other", "guild1-bob");
    let backup = cli.path("backup.jsonl").display().to_string();
    cli.ok(&["export", "-o", &backup]);
    let file = cli.path("certificate.json").display().to_string();
    let args = ["erase", "--under", "guild1-ana", "--documents", "--reason", "request 17", "--by", "ops"];
    let told = cli.ok(&[&args[..], &["--certificate", &file]].concat());
    assert!(told.starts_with("erased 3 memories and 2 documents\nverified: "), "{told}");
    let certificate = certificate(&cli, "certificate.json");
    assert_eq!(certificate["memories"], json!(sorted(ids.to_vec())));
    assert_eq!(
        certificate["documents"],
        json!([{"collection": "drafts", "id": "d"}, {"collection": "notes", "id": "n"}])
    );
    assert_eq!(certificate["counts"], json!({"memories": 3, "documents": 2}));
    assert_eq!((&certificate["reason"], &certificate["by"]), (&json!("request 17"), &json!("ops")));
    assert_eq!(certificate["selection"], json!({"spaces": [{"under": "guild1-ana"}], "documents": true}));
    assert_eq!(certificate["verified"].as_array().map(Vec::len), Some(4), "{certificate}");
    assert!(certificate["from"].as_i64() <= certificate["until"].as_i64(), "{certificate}");
    assert!(certificate["engine"].as_str().is_some_and(|held| held.contains("nothing is left")), "{certificate}");

    for id in &ids {
        assert!(cli.fails(1, &["get", id]).contains("was erased"));
    }
    cli.fails(1, &["history", &ids[0]]);
    cli.fails(1, &["document", "get", "--collection", "notes", "--id", "n"]);
    cli.ok(&["get", &other]);
    // No backup brings it back.
    let imported = "imported 7 lines: 0 new, 2 there already, 0 in conflict, 5 left out, which were erased\n";
    assert_eq!(cli.ok(&["import", &backup]), imported);
    assert_eq!(cli.count(&["--all"]), 1);
    cli.fails(1, &["document", "get", "--collection", "notes", "--id", "n"]);
    cli.ok(&["document", "get", "--collection", "notes", "--id", "other"]);
    let again: Value = serde_json::from_str(&cli.ok(&[&args[..], &["--json"]].concat())).expect("JSON");
    assert_eq!(
        (&again["counts"]["memories"], &again["verified"]),
        (&json!(0), &json!(["the same selection finds nothing"]))
    );
}

#[test]
fn ids_and_conditions_select() {
    let cli = Cli::new();
    let ids = ["a", "b", "c", "d"].map(|space| store(&cli, space, r#"{"text":"a cat"}"#));
    cli.ok(&["update", &ids[2], "--status", "completed"]);
    let erased = |args: &[&str]| {
        let told = cli.ok(&[&["erase", "--reason", "why", "--json"], args].concat());
        let told: Value = serde_json::from_str(&told).expect("JSON");
        (told["memories"].clone(), told["selection"].clone())
    };
    // A record that does not exist is skipped.
    let missing = "01a1fed6-0358-76ab-aa80-f9ff382e7513";
    let (memories, selection) = erased(&[&ids[0], missing]);
    assert_eq!((memories, selection), (json!([ids[0]]), json!({"ids": [ids[0], missing]})));
    assert_eq!(erased(&[&ids[0]]).0, json!([]));
    assert_eq!(erased(&["--status", "completed"]).0, json!([ids[2]]));
    let (memories, selection) = erased(&["--where", "spaceId = 'd'", "--text", "CAT"]);
    assert_eq!(memories, json!([ids[3]]));
    assert_eq!(selection, json!({"spaces": "all", "where": "spaceId = 'd'", "text": "CAT"}));
    assert_eq!(cli.count(&["--all"]), 1);
}

#[test]
fn documents_go_by_their_names_also_where_only_their_history_is_left() {
    let cli = Cli::new();
    let id = store(&cli, "a", "1");
    put(&cli, "notes", "n/1", "a");
    put(&cli, "notes", "removed", "a");
    put(&cli, "notes", "other", "a");
    cli.ok(&["document", "remove", "--collection", "notes", "--id", "removed"]);
    let args = ["erase", &id, "--document", "notes/n/1", "--document", "notes/removed"];
    let dry = cli.ok(&[&args[..], &["--dry-run"]].concat());
    let listed = format!("would erase {id}\nwould erase notes/n/1\nwould erase notes/removed\n");
    assert_eq!(dry, format!("{listed}would erase 1 memories and 2 documents\n"));
    let told = cli.ok(&[&args[..], &["--reason", "why", "--json"]].concat());
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let names = json!([{"collection": "notes", "id": "n/1"}, {"collection": "notes", "id": "removed"}]);
    assert_eq!((&told["memories"], &told["documents"]), (&json!([id]), &names));
    assert_eq!((&told["selection"], &told["absent"]), (&json!({"ids": [id], "documents": names}), &json!(0)));
    assert_eq!(told["verified"].as_array().map(Vec::len), Some(4), "{told}");
    assert_eq!(cli.ok(&[&args[..], &["--dry-run"]].concat()), "would erase 0 memories and 0 documents\n");
    cli.ok(&["document", "get", "--collection", "notes", "--id", "other"]);
}

#[test]
fn names_of_nothing_are_told() {
    let cli = Cli::new();
    let id = store(&cli, "a", "1");
    let args = ["erase", &id, "01a1fed6-0358-76ab-aa80-f9ff382e7513", "--document", "notes/n", "--reason", "why"];
    for more in [&["--dry-run"][..], &[]] {
        let output = cli.run(&[&args[..], more].concat());
        assert!(output.status.success() && stderr(&output).contains("2 of the named records"), "{more:?}");
    }
    // An erased record is recognized.
    assert!(!stderr(&cli.run(&["erase", &id, "--reason", "why"])).contains("of the named records"));
}

#[test]
fn no_import_and_no_copy_brings_it_back() {
    let cli = Cli::new();
    let lines =
        "{\"spaceId\":\"a\",\"trigger\":1,\"createdAt\":1}\n{\"spaceId\":\"b\",\"trigger\":2,\"createdAt\":2}\n";
    let conversation = cli.write("conversation.jsonl", lines);
    cli.ok(&["import", &conversation]);
    let (other, history) = (format!("sqlite://{}", cli.path("other.db").display()), cli.path("history.jsonl"));
    cli.ok(&["copy", "--to", &other]);
    cli.ok(&["export", "--history", "-o", &history.display().to_string()]);
    cli.ok(&["erase", "--space", "a", "--reason", "why"]);
    for file in [&conversation, &history.display().to_string()] {
        let told = cli.ok(&["import", file]);
        assert!(told.contains("0 new, 1 there already, 0 in conflict, 1 left out"), "{told}");
    }
    let here = format!("sqlite://{}", cli.path("memory.db").display());
    for more in [&[][..], &["--history"]] {
        let told = cli.ok(&[&["--url", &other, "copy", "--to", &here], more].concat());
        assert!(told.contains("1 left out, which were erased there; the target has the same hash"), "{told}");
    }
    assert_eq!(cli.count(&["--all"]), 1);
}

/// Tombstones are copied along, so that an earlier backup restores nothing elsewhere.
#[test]
fn tombstones_go_with_an_export_and_a_copy() {
    let cli = Cli::new();
    let line = r#"{"spaceId":"a","trigger":1,"createdAt":1}"#;
    let conversation = cli.write("conversation.jsonl", format!("{line}\n"));
    cli.ok(&["import", &conversation]);
    put(&cli, "notes", "n", "b");
    let [before, behind] = ["before.jsonl", "behind.jsonl"].map(|name| cli.path(name).display().to_string());
    cli.ok(&["export", "-o", &before]);
    let memory = std::fs::read_to_string(&before).expect("a file");
    let memory: Value = serde_json::from_str(memory.lines().next().expect("a line")).expect("JSON");
    let id = memory["id"].as_str().expect("an id").to_owned();
    cli.ok(&["erase", "--space", "a", "--reason", "why"]);
    cli.ok(&["erase", "--space", "b", "--documents", "--reason", "why"]);
    let told: Value = serde_json::from_str(&cli.ok(&["export", "-o", &behind, "--json"])).expect("JSON");
    assert_eq!(told, json!({"memories": 0, "documents": 0, "vectors": 0, "tombstones": 2}));
    assert_eq!(cli.ok(&["export", "--under", "a"]).lines().count(), 1, "of where it lay alone");

    let url = |name: &str| format!("sqlite://{}", cli.path(name).display());
    let here = url("memory.db");
    let target = url("imported.db");
    let imported = "imported 2 lines: 0 new, 0 there already, 0 in conflict, 2 tombstones\n";
    assert_eq!(cli.ok(&["import", &behind, "--url", &target]), imported);
    let again: Value = serde_json::from_str(&cli.ok(&["import", &behind, "--url", &target, "--json"])).expect("JSON");
    let told = json!({
        "lines": 2, "written": 0, "unchanged": 2, "conflicts": 0, "erased": 0, "tombstones": 0,
        "vectors": 0, "vectorsLeftOut": 0,
    });
    assert_eq!(again, told);
    let target_of_copy = url("copied.db");
    let told: Value = serde_json::from_str(&cli.ok(&["copy", "--to", &target_of_copy, "--json"])).expect("JSON");
    assert_eq!((&told["tombstones"], &told["verified"]), (&json!(2), &json!(true)));
    for target in [&here, &target, &target_of_copy] {
        let told = cli.ok(&["import", &before, "--url", target]);
        assert!(told.contains("0 new, 0 there already, 0 in conflict, 2 left out"), "{told}");
        // Its key is known there, too.
        let told = cli.ok(&["import", &conversation, "--url", target]);
        assert!(told.contains("0 new, 0 there already, 0 in conflict, 1 left out"), "{told}");
        assert!(cli.fails(1, &["get", &id, "--url", target]).contains("was erased"));
    }
    // If the record exists there, it is erased.
    let late = url("late.db");
    cli.ok(&["import", &before, "--url", &late]);
    assert!(
        cli.ok(&["import", &behind, "--url", &late]).contains("0 new, 0 there already, 0 in conflict, 2 tombstones")
    );
    assert!(cli.fails(1, &["get", &id, "--url", &late]).contains("was erased"));
    cli.fails(1, &["document", "get", "--collection", "notes", "--id", "n", "--url", &late]);
}

#[test]
fn who_follows_erases_what_its_source_erases() {
    let cli = Cli::new();
    let [first, second] = ["1", "2"].map(|trigger| store(&cli, "a", trigger));
    put(&cli, "notes", "n", "a");
    cli.ok(&["erase", &first, "--reason", "why"]);
    let url = |name: &str| format!("sqlite://{}", cli.path(name).display());
    let (here, target) = (url("memory.db"), url("target.db"));
    let mut follower = Follower::start(&cli, &here, &target);
    follower.wait_for("up to date");
    cli.ok(&["get", &second, "--url", &target]);
    cli.ok(&["erase", "--space", "a", "--documents", "--reason", "why"]);
    eventually("the target erases", || {
        let gone = cli.run(&["get", &second, "--url", &target]);
        let note = cli.run(&["document", "get", "--collection", "notes", "--id", "n", "--url", &target]);
        stderr(&gone).contains("was erased") && !note.status.success()
    });
    assert!(follower.interrupt().success());
    assert!(cli.fails(1, &["get", &first, "--url", &target]).contains("was erased"));
    cli.ok(&["copy", "--finish", "--url", &here, "--to", &target]);
}

#[test]
fn a_dry_run_lists_and_erases_nothing() {
    let cli = Cli::new();
    let ids = ["1", "2"].map(|trigger| store(&cli, "a", trigger));
    put(&cli, "notes", "n", "a");
    let args = ["erase", "--under", "a", "--documents", "--dry-run"];
    let lines = cli.ok(&[&args[..], &["--json"]].concat());
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2], json!({"collection": "notes", "id": "n", "dryRun": true}));
    let told = cli.ok(&args);
    assert!(told.contains(&format!("would erase {}\n", ids[0])) && told.contains("would erase notes/n\n"), "{told}");
    assert!(told.ends_with("would erase 2 memories and 1 documents\n"), "{told}");
    let told = cli.ok(&["erase", &ids[0], "01a1fed6-0358-76ab-aa80-f9ff382e7513", "--dry-run"]);
    assert_eq!(told, format!("would erase {}\nwould erase 1 memories and 0 documents\n", ids[0]));
    assert_eq!(cli.count(&["--all"]), 2);
}

#[test]
fn an_erasure_that_was_stopped_goes_on_with_its_certificate() {
    let cli = Cli::new();
    let ids: Vec<_> = (0..5).map(|number| store(&cli, "a", &number.to_string())).collect();
    let file = cli.path("certificate.json").display().to_string();
    let args = ["erase", "--space", "a", "--reason", "why", "--at-most", "2", "--certificate", &file];
    for (code, count) in [(1, 2), (1, 4), (0, 5)] {
        let output = cli.run(&args);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert_eq!(stderr(&output).contains("more are left"), code == 1, "{}", stderr(&output));
        assert!(stdout(&output).starts_with(&format!("erased {count} memories ")), "{}", stdout(&output));
        assert_eq!(certificate(&cli, "certificate.json")["counts"]["memories"], count);
    }
    assert_eq!(certificate(&cli, "certificate.json")["memories"], json!(sorted(ids)));
    let other = cli.fails(2, &["erase", "--space", "b", "--reason", "why", "--certificate", &file]);
    assert!(other.contains("--certificate"), "{other}");
    // A limit of exactly the number of records leaves nothing.
    store(&cli, "b", "1");
    cli.ok(&["erase", "--space", "b", "--reason", "why", "--at-most", "1"]);
}

#[test]
fn a_signal_stops_it_between_two_slices() {
    let cli = Cli::new();
    let line = |number: usize| format!("{{\"spaceId\":\"a\",\"trigger\":{number},\"createdAt\":{number}}}\n");
    let lines: String = (0..6_000).map(line).collect();
    cli.ok(&["import", &cli.write("many.jsonl", lines)]);
    let file = cli.path("certificate.json").display().to_string();
    let args = ["erase", "--space", "a", "--reason", "why", "--progress", "--certificate", &file];
    let erasing = Running::start(cli.command(), &args);
    assert_eq!(erasing.error(), "done: 1000");
    erasing.signal("-INT");
    let (status, errors) = erasing.wait();
    assert_eq!(status.code(), Some(1), "{errors:?}");
    assert!(errors.iter().any(|line| line.contains("repeat the command")), "{errors:?}");
    let stopped = certificate(&cli, "certificate.json");
    let count = stopped["counts"]["memories"].as_u64().expect("a number");
    assert!((1_000..6_000).contains(&count), "{count}");
    cli.ok(&args);
    assert_eq!(certificate(&cli, "certificate.json")["counts"]["memories"], 6_000);
    assert_eq!(cli.count(&["--all"]), 0);
}

/// Each slice is complete or absent, and after the last one nothing is left in a file, whatever the killed runs have
/// left.
#[test]
fn a_kill_in_the_midst_leaves_what_the_same_command_goes_on_with() {
    const MARKER: &str = "0f4c6a1d-9b7e-4d52-8f30-5ce2ab81d7f6";
    let cli = Cli::new();
    let line =
        |number: usize| format!("{{\"spaceId\":\"{MARKER}\",\"trigger\":\"{MARKER}\",\"createdAt\":{number}}}\n");
    let lines = cli.write("many.jsonl", (0..6_000).map(line).collect::<String>());
    cli.ok(&["import", &lines]);
    std::fs::remove_file(lines).expect("it was there");
    let args = ["erase", "--space", MARKER, "--reason", "why", "--progress"];
    let count = || {
        let counted = cli.database("memory.db").query_one("SELECT count(*) FROM memories", [], |row| row.get(0));
        counted.expect("a number")
    };
    let mut left: i64 = count();
    assert_eq!(left, 6_000);
    for _ in 0..3 {
        let erasing = Running::start(cli.command(), &args);
        assert_eq!(erasing.error(), "done: 1000");
        erasing.signal("-KILL");
        erasing.wait();
        let before = std::mem::replace(&mut left, count());
        assert!(left < before && left % 1_000 == 0, "{left} of {before}");
    }
    cli.ok(&args);
    assert_eq!(count(), 0);
    let holds = |path: &std::path::Path| {
        let bytes = std::fs::read(path).expect("a file");
        bytes.windows(MARKER.len()).any(|some| some == MARKER.as_bytes())
    };
    let folder = std::fs::read_dir(cli.path(".")).expect("a folder");
    let holding: Vec<_> = folder.map(|entry| entry.expect("an entry").path()).filter(|path| holds(path)).collect();
    assert!(holding.is_empty(), "{holding:?}");
}

#[test]
fn a_signal_ends_the_verification_and_the_certificate_is_there() {
    let cli = Cli::new();
    let line = |number: usize| format!("{{\"spaceId\":\"a\",\"trigger\":{number},\"createdAt\":{number}}}\n");
    let lines: String = (0..6_000).map(line).collect();
    cli.ok(&["import", &cli.write("many.jsonl", lines)]);
    let file = cli.path("certificate.json").display().to_string();
    let args = ["erase", "--space", "a", "--reason", "why", "--progress", "--certificate", &file];
    let erasing = Running::start(cli.command(), &args);
    let told: Vec<_> = std::iter::repeat_with(|| erasing.error()).take_while(|line| line != "verified: 1000").collect();
    assert_eq!(told.last().map(String::as_str), Some("done: 6000"));
    erasing.signal("-INT");
    let (status, errors) = erasing.wait();
    assert_eq!(status.code(), Some(1), "{errors:?}");
    assert!(errors.iter().any(|line| line.contains("repeat the command to verify it")), "{errors:?}");
    assert_eq!(certificate(&cli, "certificate.json")["verified"], json!([]));
    cli.ok(&args);
    let verified = certificate(&cli, "certificate.json");
    assert_eq!(verified["counts"]["memories"], 6_000);
    assert_eq!(verified["verified"].as_array().map(Vec::len), Some(3), "{}", verified["verified"]);
}

#[test]
fn mistakes_are_told_before_anything_is_erased() {
    let cli = Cli::new();
    let id = &*store(&cli, "a", "1");
    let long = "x".repeat(1_025);
    for (args, named) in [
        (vec!["--all", "--reason", "why"], "everything"),
        (vec!["--after", "0", "--reason", "why"], "everything"),
        (vec!["--reason", "why"], "--under"),
        (vec!["--under", "a"], "--reason"),
        (vec!["--under", "a", "--reason", " "], "--reason"),
        (vec!["--under", "a", "--reason", &long], "--reason"),
        (vec![id, "--under", "a", "--reason", "why"], "cannot be used"),
        (vec![id, "--documents", "--reason", "why"], "cannot be used"),
        (vec!["--status", "pending", "--documents", "--reason", "why"], "cannot be used"),
        (vec!["--under", "a", "--collection", "notes", "--reason", "why"], "--documents"),
        (vec!["--under", "a", "--documents", "--collection", "_follow", "--reason", "why"], "--collection"),
        (vec!["--document", "_follow/source", "--reason", "why"], "--document"),
        (vec!["--document", "notes", "--reason", "why"], "a slash"),
        (vec!["--document", "notes/n", "--under", "a", "--reason", "why"], "cannot be used"),
        (vec!["--person", "ana", "--agent", "ada", "--document", "notes/n", "--reason", "why"], "cannot be used"),
        (vec!["--person", "ana", "--reason", "why"], "--agent"),
        (vec!["--person", "ana", "--agent", "ada", "--under", "a", "--reason", "why"], "cannot be used"),
        (vec!["--person", "ada", "--agent", "ada", "--reason", "why"], "the agent itself"),
        (vec!["--under", "a", "--reason", "why", "--at-most", "0"], "--at-most"),
    ] {
        let told = cli.fails(2, &[&["erase"], args.as_slice()].concat());
        assert!(told.contains(named), "{args:?}: {told}");
    }
    assert_eq!(cli.count(&["--all"]), 1);
}

/// Ada knows Ana and Bob, from a group and from a conversation with each.
async fn know_people(provider: &Arc<dyn MemoryProvider>) -> memory_core::Result<()> {
    let records = Records::new(Arc::clone(provider), "ada".parse()?);
    let (agent, now) = (records.agent().entity(), SystemClock.now());
    let (ana, bob): (EntityId, EntityId) = ("ana".parse()?, "bob".parse()?);
    let prompts = PromptMemory::new(provider.documents());
    for (room, channel_type, members) in [
        ("group", ChannelType::Group, vec![&ana, &bob]),
        ("dm:ana", ChannelType::Dm, vec![&ana]),
        ("dm:bob", ChannelType::Dm, vec![&bob]),
    ] {
        let id: RoomId = room.parse()?;
        records.rooms().ensure(&Room::new(id.clone(), channel_type)).await?;
        records.participants().join(&id, &agent).await?;
        for member in members {
            records.entities().ensure(&Entity::new(member.clone(), member.as_str())).await?;
            records.participants().join(&id, member).await?;
            let said = async |author: &EntityId, text: String| {
                let mut content = MessageContent::new(id.clone(), author.clone(), text);
                content.channel_type = channel_type;
                records.messages().add(NewMessage::new(content, now)).await
            };
            let message = said(member, format!("{member} said this in {room}")).await?;
            said(&agent, format!("answered {member} in {room}")).await?;
            records.reflections().add(&message, &format!("thought of {member} in {room}"), now).await?;
            let fact = format!("{member} likes what is in {room}");
            records.facts().remember(NewFact::new(id.clone(), member.clone(), agent.clone(), fact, now)).await?;
            let context = MemoryLoadContext::of(records.agent(), &message);
            let updates = [MemoryStore::User, MemoryStore::Memory]
                .map(|store| MemoryUpdate::add(store, format!("kept of {member} in {room}")));
            prompts.sync(&context, &updates).await?;
        }
    }
    let told = NewFact::new("dm:bob".parse()?, bob.clone(), ana.clone(), "ana says that bob sings", now);
    records.facts().remember(told).await?;
    records.components().put(&ana, "preferences", &json!({"language": "es"})).await?;
    records.components().put(&bob, "preferences", &json!({"language": "en"})).await?;
    records.relationships().interact(&ana, &bob, [], now).await?;
    records.relationships().interact(&bob, &agent, [], now).await?;
    Ok(())
}

#[test]
fn a_person_is_forgotten_and_others_are_not() {
    let cli = Cli::new();
    let runtime = Runtime::new().expect("a runtime");
    let url = format!("sqlite://{}", cli.path("memory.db").display());
    let opened = async |provider: Arc<dyn MemoryProvider>| {
        provider.init().await?;
        know_people(&provider).await?;
        provider.shutdown().await
    };
    runtime.block_on(opened(memory_runtime::open(&url).expect("a URL"))).expect("it is known");
    let whole = cli.ok(&["export"]);
    let args = ["erase", "--person", "ana", "--agent", "ada", "--reason", "request 17"];
    let dry = cli.ok(&[&args[..], &["--dry-run", "--json"]].concat());
    assert_eq!(cli.ok(&["export"]), whole, "a dry run changes nothing");
    let told = cli.ok(&[&args[..], &["--json"]].concat());
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["selection"], json!({"person": "ana", "agent": "ada"}));
    let count = |value: &Value| value.as_u64().expect("a number");
    let (memories, documents) = (count(&told["counts"]["memories"]), count(&told["counts"]["documents"]));
    let lists = dry.lines().filter(|line| line.contains("\"list\"")).count();
    assert_eq!(dry.lines().count() - lists, (memories + documents) as usize, "{dry}");
    // From her own room the message, the answer and the reflection; from the group her message.
    assert_eq!(memories, 4);
    let left = cli.ok(&["export"]);
    for gone in
        ["ana said this", "ana likes", "in dm:ana", "ana says", "kept of ana in dm:ana", r#"\"language\":\"es\""#]
    {
        assert!(whole.contains(gone) && !left.contains(gone), "{gone}");
    }
    for stays in
        ["bob said this in group", "bob said this in dm:bob", "bob likes what is in group", "kept of bob in dm:bob"]
    {
        assert!(left.contains(stays), "{stays}");
    }
    // Texts of others stay.
    assert!(left.contains("answered ana in group") && left.contains("kept of ana in group"));
    let provider = memory_runtime::open(&url).expect("a URL");
    let present = async {
        provider.init().await?;
        let records = Records::new(Arc::clone(&provider), "ada".parse()?);
        let audience = Audience::new("group".parse()?, "bob".parse()?);
        let present = records.participants().of_room(&audience).await?;
        provider.shutdown().await?;
        Ok::<_, memory_core::Error>(present.into_iter().map(|one| one.entity.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(runtime.block_on(present).expect("the group"), ["ada", "bob"]);
    let again = cli.ok(&[&args[..], &["--dry-run"]].concat());
    assert_eq!(again, "would erase 0 memories and 0 documents\n");
}
