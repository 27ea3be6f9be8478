//! PostgreSQL as it is in operation: refusals, crashes, standbys, encryption, a pooler, and plans at size.

mod common;
mod crashes;
mod plans;
mod pooler;
mod refusals;
mod standby;
mod tls;

use std::process::ExitCode;

use conformance::server::Missing;
use conformance::server::postgres::{LocalPostgres, PgBouncer};
use libtest_mimic::{Arguments, Trial};

use crate::common::Case;

fn main() -> ExitCode {
    let server = LocalPostgres::start();
    let pooler = server.as_ref().map_err(Missing::clone).and_then(|server| PgBouncer::start(server.url()));
    let missing = [server.err(), pooler.err()];
    let trial = |name: &str, missing: &Option<Missing>, test: fn() -> Case| match missing {
        Some(missing) => missing.trial(name),
        None => Trial::test(name, move || test().map_err(|error| format!("{error:?}").into())),
    };
    let on_server = |name, test| trial(name, &missing[0], test);
    let mut trials = vec![
        on_server("refusals::unreachable_servers_are_unavailable_at_once", refusals::unreachable),
        on_server("refusals::roles_and_databases_have_their_kinds", refusals::roles_and_databases),
        on_server("refusals::statements_have_their_kinds", refusals::statements),
        on_server("refusals::a_lost_race_is_run_again", refusals::lost_race),
        on_server("crashes::acknowledged_stores_survive_kills", crashes::acknowledged_stores_survive),
        on_server("crashes::calls_work_again_after_a_restart", crashes::calls_work_again),
        on_server("standby::reads_can_go_to_a_replica", standby::reads),
        on_server("standby::the_primary_is_followed_after_a_failover", standby::failover),
        on_server("tls::each_mode_checks_what_it_promises", tls::modes),
        on_server("plans::no_recall_scans_a_table", plans::no_scan),
        trial("pooler::each_call_gets_its_own_answer", &missing[1], pooler::own_answers),
    ];
    let full_disk = "refusals::a_full_disk_is_unavailable_until_there_is_room";
    trials.push(match refusals::can_mount() {
        true => on_server(full_disk, refusals::full_disk),
        false => {
            Trial::test(format!("{full_disk} (only root can mount a small disk)"), || Ok(())).with_ignored_flag(true)
        }
    });
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
