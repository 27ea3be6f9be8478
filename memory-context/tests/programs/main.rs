//! The program of the README and the guide, on every engine. A database on a server of this test replaces the URL that
//! the program names.

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::Arc;

use conformance::server::{Missing, TestServer, trial};
use conformance::{CaseResult, Namespace};
use libtest_mimic::{Arguments, Failed, Trial};
use memory_core::{DEFAULT_DEADLINE, HistorySettings, MemoryProvider, Result, SystemClock};
use memory_runtime::Sandbox;

/// A program as it is in the guide, except for what `memory_runtime::open` opens.
macro_rules! program {
    ($engine:ident) => {
        mod $engine {
            mod memory_runtime {
                pub(super) use crate::open;
            }

            pub(super) const TEXT: &str = include_str!(concat!(stringify!($engine), ".rs"));

            include!(concat!(stringify!($engine), ".rs"));

            pub(super) fn run() -> Result<()> {
                main()
            }
        }
    };
}

program!(mongo);
program!(postgres);
program!(redis);
program!(sqlite);

thread_local! {
    /// The database of this thread's program.
    static PLACE: RefCell<Option<(Sandbox, String)>> = const { RefCell::new(None) };
}

fn main() -> ExitCode {
    let trials = vec![
        Trial::test("the_readme_shows_the_program_of_sqlite", shown),
        Trial::test("the_programs_differ_in_one_line", alike),
        trial("sqlite::the_program_finds_what_it_stores", || {
            let folder = tempfile::tempdir()?;
            finds(&format!("sqlite://{}", folder.path().join("memory.db").display()), sqlite::run)
        }),
        on_server("postgres", TestServer::postgres, postgres::run),
        on_server("redis", TestServer::redis, redis::run),
        on_server("mongo", TestServer::mongo, mongo::run),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn shown() -> Result<(), Failed> {
    let (_, program) = sqlite::TEXT.split_once("\n\n").ok_or("a program behind its comment")?;
    assert!(include_str!("../../../README.md").contains(&format!("```rust\n{program}```")));
    Ok(())
}

fn alike() -> Result<(), Failed> {
    let guide = include_str!("../../../docs/src/engines.md");
    for other in [mongo::TEXT, postgres::TEXT, redis::TEXT] {
        assert_eq!(other.lines().count(), sqlite::TEXT.lines().count());
        let lines: Vec<_> = other.lines().zip(sqlite::TEXT.lines()).filter(|(other, sqlite)| other != sqlite).collect();
        let [(line, of_sqlite)] = lines[..] else { return Err(format!("they differ in {lines:?}").into()) };
        for line in [line, of_sqlite] {
            let opened = line.trim().trim_start_matches("let memory = ").trim_end_matches(';');
            assert!(guide.contains(opened), "the guide does not name {opened}");
        }
    }
    Ok(())
}

fn on_server(engine: &str, start: fn() -> Result<TestServer, Missing>, program: fn() -> Result<()>) -> Trial {
    trial(format!("{engine}::the_program_finds_what_it_stores"), move || finds(start()?.url(), program))
}

/// The program itself panics if it finds nothing.
fn finds(url: &str, program: fn() -> Result<()>) -> CaseResult {
    let sandbox = Sandbox {
        name: Namespace::unique().name,
        clock: Arc::new(SystemClock),
        deadline: DEFAULT_DEADLINE,
        history: HistorySettings::default(),
    };
    PLACE.set(Some((sandbox.clone(), url.to_owned())));
    let done = program();
    tokio::runtime::Runtime::new()?.block_on(sandbox.remove(url))?;
    Ok(done?)
}

/// Replaces `memory_runtime::open` in the programs.
fn open(_: &str) -> Result<Arc<dyn MemoryProvider>> {
    PLACE.with_borrow(|place| {
        let (sandbox, url) = place.as_ref().expect("a place");
        sandbox.open(url)
    })
}
