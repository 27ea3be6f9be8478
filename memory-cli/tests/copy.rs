//! Moving data between engines, and looking at one.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use common::moving::{Follower, check_move, export, fence};
use common::sample::{CHECKS, filled};
use common::{Cli, stderr, stdout};

mod common;

#[test]
fn a_copy_that_was_killed_goes_on_when_it_is_repeated() {
    let cli = Cli::new();
    let lines: String =
        (0..20_000).map(|n| format!(r#"{{"spaceId":"a-m{n}","trigger":{n},"createdAt":{n}}}"#) + "\n").collect();
    cli.ok(&["import", &cli.write("lines.jsonl", lines)]);
    let before = cli.ok(&["export"]);
    let to = format!("sqlite://{}", cli.path("copy.db").display());
    cli.ok(&["--url", &to, "migrate"]);
    let database = cli.database("copy.db");
    // The copy hangs at this memory, so it is still running when it is killed.
    let halt = "CREATE TRIGGER halt BEFORE INSERT ON memories WHEN new.slot >> 20 = 5000 BEGIN
        SELECT count(*) FROM memories a, memories b, memories c, memories d; END";
    database.execute_batch(halt).expect("a trigger");
    let copy = ["copy", "--to", &to, "--progress"];
    let mut child = cli.command().args(copy).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it runs");
    let errors = BufReader::new(child.stderr.take().expect("it is piped"));
    let told: Vec<_> = errors.lines().take(5).map(|line| line.expect("a line")).collect();
    assert_eq!(told, [1, 2, 3, 4, 5].map(|thousand| format!("done: {thousand}000")));
    child.kill().expect("it runs still");
    child.wait().expect("it ends");
    database.execute_batch("DROP TRIGGER halt").expect("dropped");
    let there = cli.ok(&["--url", &to, "export"]).lines().count();
    assert_eq!(there, 5_000);
    let told = cli.ok(&["copy", "--to", &to, "--json"]);
    assert!(
        told.contains(&format!(r#""written":{}"#, 20_000 - there)) && told.contains(r#""verified":true"#),
        "{told}"
    );
    assert_eq!(cli.ok(&["--url", &to, "export"]), before);
}

#[test]
fn a_copy_takes_what_is_selected_and_spares_what_is_there() {
    let cli = filled();
    let target = format!("sqlite://{}", cli.path("copy.db").display());
    let told = cli.ok(&["copy", "--to", &target, "--under", "odd", "--json"]);
    assert!(told.contains(r#""memories":1"#) && told.contains(r#""documents":0"#), "{told}");
    let id = cli.ok(&["--url", &target, "query", "--all", "--json"]);
    let id = id.split('"').nth(3).expect("an id").to_owned();
    cli.ok(&["--url", &target, "update", &id, "--status", "failed"]);
    let output = cli.run(&["copy", "--to", &target, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains(r#""conflicts":1"#) && stdout(&output).contains(r#""verified":false"#));
    assert!(stderr(&output).contains(&id), "{}", stderr(&output));
    let kept = cli.ok(&["--url", &target, "get", &id, "--json"]);
    assert!(kept.contains(r#""status":"failed""#), "{kept}");
    let source = format!("sqlite://{}", cli.path("memory.db").display());
    assert!(cli.fails(2, &["copy", "--to", &source]).contains("--to"));
    assert!(cli.fails(2, &["copy", "--to", "nothing"]).contains("--to"));
}

#[test]
fn a_copy_that_leaves_something_out_is_not_verified() {
    let cli = filled();
    let database = cli.database("memory.db");
    let broken = database.execute(r#"UPDATE memories SET "trigger" = '{"cut' WHERE space_id = 'odd-1'"#, []);
    assert_eq!(broken.expect("updated"), 1);
    let target = format!("sqlite://{}", cli.path("copy.db").display());
    // The URL of the target may have a password, so it may be in the environment.
    let output =
        cli.command().args(["copy", "--json"]).env("AGENT_MEMORY_TO", &target).output().expect("the binary runs");
    let told = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains(r#""unreadable":1"#) && told.contains(r#""verified":false"#), "{told}");
    assert!(stderr(&output).contains("can't be read"), "{}", stderr(&output));
    let output = cli.run(&["copy", "--to", &target]);
    assert!(stdout(&output).contains("1 can't be read; the target has the same hash without those"), "{output:?}");
}

#[test]
fn a_doctor_tells_what_works_and_leaves_no_trace() {
    let cli = filled();
    let before = cli.ok(&["export"]);
    let told = cli.ok(&["doctor"]);
    for check in CHECKS {
        assert!(told.lines().any(|line| line.starts_with(&format!("ok   {check}: "))), "{check} in {told}");
    }
    assert_eq!(cli.ok(&["export"]), before);
    cli.ok(&["store", "--space", "s", "--trigger", "1", "--created-at", "8000000000000"]);
    assert!(cli.ok(&["doctor", "--read-only"]).contains("in the future"));
}

#[test]
fn a_doctor_tells_what_is_wrong_and_mends_nothing() {
    let cli = filled();
    let bad = |file: &str| {
        let output = cli.run(&["--url", &format!("sqlite://{}", cli.path(file).display()), "doctor", "--json"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let told = stdout(&output);
        let bad: Vec<_> = told.lines().filter(|line| line.contains(r#""finding":"bad""#)).collect();
        assert_eq!(bad.len(), 1, "{told}");
        bad[0].to_owned()
    };
    let text = "not a database, but a text of more than a hundred bytes, which is what a header takes at the least....";
    cli.write("broken.db", text);
    assert!(bad("broken.db").contains("connection"));
    assert!(bad("none.db").contains("run agent-memory migrate"));
    assert!(!cli.path("none.db").exists(), "what is not there is not made");
    let database = cli.database("memory.db");
    database.execute("DROP INDEX memories_open", []).expect("dropped");
    assert!(bad("memory.db").contains("memories_open"));
    assert!(
        cli.fails(2, &["--url", "nothing", "doctor"]).contains("--url"),
        "a URL that is none is a mistake in the arguments"
    );
}

fn url_of(cli: &Cli, name: &str) -> String {
    format!("sqlite://{}", cli.path(name).display())
}

#[test]
fn a_ledger_moves_while_a_program_writes_to_it() {
    let cli = filled();
    check_move(&cli, &url_of(&cli, "memory.db"), &url_of(&cli, "copy.db"));
}

#[test]
fn a_follower_that_has_missed_changes_compares_everything() {
    let cli = filled();
    let (from, to) = (url_of(&cli, "memory.db"), url_of(&cli, "copy.db"));
    let catch_up = || {
        let mut follower = Follower::start(&cli, &from, &to);
        follower.wait_for("up to date: ");
        assert!(follower.interrupt().success());
        assert_eq!(export(&cli, &from), export(&cli, &to));
    };
    catch_up();
    let remove = |id: &str| cli.ok(&["document", "remove", "--collection", "notes", "--id", id]);
    remove("a");
    remove("b");
    // Another one, at a lower revision.
    cli.ok(&["document", "put", "--collection", "notes", "--id", "b", "--space", "s", "--content", "anew"]);
    let forgotten = "DELETE FROM changes WHERE seq < (SELECT max(seq) FROM changes)";
    assert!(cli.database("memory.db").execute(forgotten, []).expect("deleted") > 0);
    let mut follower = Follower::start(&cli, &from, &to);
    follower.wait_for("the feed of the source has lost changes");
    // Also when it is killed before it has done so.
    drop(follower);
    catch_up();
}

#[test]
fn a_source_takes_writes_again_when_the_target_differs() {
    let cli = filled();
    let (from, to) = (url_of(&cli, "memory.db"), url_of(&cli, "copy.db"));
    cli.ok(&["copy", "--to", &to]);
    let changed = cli.ok(&["--url", &to, "query", "--space", "odd-1", "--json"]);
    let id = changed.split('"').nth(3).expect("an id").to_owned();
    cli.ok(&["--url", &to, "update", &id, "--status", "failed"]);
    let finish = ["copy", "--finish", "--to", &to];
    let output = cli.run(&finish);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (told, errors) = (stdout(&output), stderr(&output));
    assert!(told.contains("1 in conflict") && told.contains("the target differs"), "{told}");
    assert!(errors.contains("takes writes again"), "{errors}");
    // The source's record is later than the conflicting one by now.
    for status in ["running", "completed", "observed"] {
        cli.ok(&["update", &id, "--status", status]);
    }
    assert!(cli.ok(&finish).contains("the target has the same hash"));
    assert_eq!(export(&cli, &from), export(&cli, &to));
}

#[test]
fn a_target_with_documents_of_its_own_is_no_follower() {
    let cli = filled();
    let to = url_of(&cli, "copy.db");
    cli.ok(&["--url", &to, "document", "put", "--collection", "own", "--id", "x", "--space", "s", "--content", "x"]);
    assert!(
        cli.fails(2, &["copy", "--follow", "--to", &to])
            .contains("1 documents of the target are not those of the source")
    );
    assert!(cli.fails(2, &["copy", "--follow", "--to", &to, "--under", "a"]).contains("apply to everything"));
    assert!(cli.fails(2, &["copy", "--follow", "--unfence", "--to", &to]).contains("--unfence"));
    let other = url_of(&cli, "other.db");
    cli.ok(&["copy", "--finish", "--to", &other]);
    cli.ok(&["copy", "--unfence", "--to", &other]);
    let mut follower = Follower::start(&cli, &url_of(&cli, "memory.db"), &other);
    follower.wait_for("up to date: ");
    drop(follower);
    // The token of one source is refused by another.
    assert!(cli.fails(2, &["--url", &to, "copy", "--follow", "--to", &other]).contains("follows another source"));
}

const STORE: [&str; 5] = ["store", "--space", "s", "--trigger", "1"];

#[test]
fn of_two_runs_the_one_that_began_last_goes_on() {
    let cli = filled();
    let (from, to) = (url_of(&cli, "memory.db"), url_of(&cli, "copy.db"));
    let start = || {
        let mut follower = Follower::start(&cli, &from, &to);
        follower.wait_for("up to date: ");
        follower
    };
    let (mut first, mut second) = (start(), start());
    cli.ok(&STORE);
    first.wait_for("error: another run of copy works on this target");
    assert_eq!(first.end().code(), Some(1));
    let finish = ["copy", "--finish", "--to", &to];
    assert!(cli.ok(&finish).contains("the target has the same hash"));
    second.wait_for("error: another run of copy works on this target");
    assert_eq!(second.end().code(), Some(1));
    // A completed takeover by the target is not undone.
    cli.ok(&[&["--url", &to], &STORE[..]].concat());
    assert!(cli.ok(&finish).contains("taken over already"));
}

#[test]
fn a_fence_that_is_not_of_the_move_stays() {
    let cli = filled();
    let (from, to) = (url_of(&cli, "memory.db"), url_of(&cli, "copy.db"));
    fence(&from);
    assert!(cli.fails(1, &["copy", "--finish", "--to", &to]).contains("not for this target"));
    assert!(cli.fails(1, &STORE).contains("read-only"));
}

#[test]
fn a_fence_that_fails_is_none() {
    let cli = filled();
    let (from, to) = (url_of(&cli, "memory.db"), url_of(&cli, "copy.db"));
    cli.ok(&["copy", "--to", &to]);
    let database = cli.database("memory.db");
    database.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let output = cli.run(&["--url", &format!("{from}?deadline_ms=2000"), "copy", "--finish", "--to", &to]);
    database.execute_batch("COMMIT").expect("free");
    let errors = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("can't be made read-only"), "{errors}");
    cli.ok(&STORE);
}

#[test]
fn the_way_back_needs_no_target() {
    let cli = filled();
    let (to, next) = (url_of(&cli, "copy.db"), url_of(&cli, "next.db"));
    let finish = ["copy", "--finish", "--to", &to];
    cli.ok(&finish);
    cli.ok(&["copy", "--unfence"]);
    cli.ok(&STORE);
    assert!(cli.fails(2, &["copy", "--follow", "--to", &to]).contains("taken over already"));
    cli.ok(&["copy", "--unfence", "--to", &to]);
    cli.ok(&finish);
    // A target that was used meanwhile, or can't be opened, does not prevent it either.
    cli.ok(&["--url", &to, "copy", "--finish", "--to", &next]);
    for target in [to.as_str(), "nothing"] {
        fence(&url_of(&cli, "memory.db"));
        let output = cli.run(&["copy", "--unfence", "--to", target]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(stdout(&output).trim(), "the source takes writes");
        assert!(stderr(&output).contains("does not forget"), "{}", stderr(&output));
        cli.ok(&STORE);
    }
    assert!(cli.fails(2, &["copy"]).contains("--to"));
}

#[test]
fn a_source_does_not_move_to_itself() {
    let cli = filled();
    let before = cli.ok(&["export"]);
    for verb in ["--follow", "--finish"] {
        let refused = cli.fails(2, &["copy", verb, "--to", &url_of(&cli, "./memory.db")]);
        assert!(refused.contains("the database of --url itself"), "{refused}");
    }
    assert_eq!(cli.ok(&["export"]), before);
}

#[test]
fn a_target_has_taken_over_from_its_own_source_alone() {
    let cli = filled();
    let (to, other) = (url_of(&cli, "copy.db"), url_of(&cli, "other.db"));
    cli.ok(&["copy", "--finish", "--to", &to]);
    cli.ok(&["--url", &other, "copy", "--finish", "--to", &url_of(&cli, "elsewhere.db")]);
    let refused = cli.fails(2, &["--url", &other, "copy", "--finish", "--to", &to]);
    assert!(refused.contains("follows another source"), "{refused}");
}

#[test]
fn what_no_change_tells_of_comes_with_the_next_run() {
    let cli = filled();
    let (from, to) = (url_of(&cli, "memory.db"), url_of(&cli, "copy.db"));
    let mut follower = Follower::start(&cli, &from, &to);
    follower.wait_for("up to date: ");
    assert!(follower.interrupt().success());
    cli.ok(&["--url", &to, "document", "remove", "--collection", "notes", "--id", "a"]);
    let finish = ["copy", "--finish", "--to", &to];
    let output = cli.run(&finish);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        stderr(&output).contains("the document a is the first record that the target lacks"),
        "{}",
        stderr(&output)
    );
    assert!(cli.ok(&finish).contains("the target has the same hash"));
    assert_eq!(export(&cli, &from), export(&cli, &to));
}
