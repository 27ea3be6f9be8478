//! PostgreSQL in operation: refusals, crashes, standbys, encryption, a pooler, migrations, and plans at a large size.

mod common;
mod connections;
mod crashes;
mod erasure;
mod expiry;
mod feed;
mod given_up;
mod heavy;
mod history;
mod migrations;
mod plans;
mod pooler;
mod privileges;
mod refusals;
mod standby;
mod tls;
mod vectors;

use std::process::ExitCode;

use conformance::server::{run_waiting, trial};
use libtest_mimic::Trial;

/// How many tests run at once.
const AT_ONCE: usize = 5;

fn main() -> ExitCode {
    let mut trials = vec![
        trial("refusals::unreachable_servers_are_unavailable_at_once", refusals::unreachable),
        trial("refusals::roles_and_databases_have_their_kinds", refusals::roles_and_databases),
        trial("refusals::statements_have_their_kinds", refusals::statements),
        trial("refusals::states_have_kinds", refusals::states),
        trial("refusals::a_lost_race_is_run_again", refusals::lost_race),
        trial("refusals::the_failure_of_one_store_touches_no_other", refusals::one_failure),
        trial("crashes::acknowledged_stores_survive_kills", crashes::acknowledged_stores_survive),
        trial("crashes::calls_work_again_after_a_restart", crashes::calls_work_again),
        trial("connections::those_that_nobody_uses_are_closed", connections::idle),
        trial("connections::health_needs_none_of_the_pool", connections::busy),
        trial("connections::health_shares_the_last_one", connections::full),
        trial("connections::a_silent_server_costs_one_deadline", connections::forgotten),
        trial("connections::a_full_server_is_asked_by_one_call", connections::refused),
        trial("connections::those_that_take_no_writes_are_closed", connections::read_only),
        trial("connections::a_server_that_takes_no_writes_keeps_its_readers", connections::read_only_for_all),
        trial("erasure::nothing_is_left_of_it_in_any_table", erasure::nothing_is_left),
        trial("erasure::nothing_is_left_of_it_in_any_file", erasure::nothing_is_left_in_files),
        trial("erasure::what_has_waited_for_it_brings_nothing_back", erasure::raced),
        trial("erasure::it_gives_way_to_those_who_write", erasure::gives_way),
        trial("erasure::it_gives_up_before_its_end_is_unknown", erasure::gives_up),
        trial("erasure::a_slice_takes_documents_of_several_collections", erasure::of_several_collections),
        trial("expiry::the_lists_have_what_expires_and_nothing_else", expiry::listed),
        trial("expiry::programs_of_the_version_before_go_on", expiry::beside_older_programs),
        trial("expiry::rules_are_refused_as_each_write_is", expiry::read_only),
        trial("feed::a_late_transaction_is_waited_for", feed::late),
        trial("feed::a_page_of_the_feed_needs_what_it_tells", feed::long_rows),
        trial("feed::a_document_that_is_put_again_comes_behind_its_removal", feed::put_again),
        trial("feed::other_processes_are_listened_to", feed::listens),
        trial("feed::the_oldest_rows_are_dropped", feed::trimmed),
        trial("feed::an_operator_says_how_many_are_kept", feed::kept),
        trial("feed::what_is_held_back_is_kept", feed::held_back),
        trial("feed::what_is_held_back_is_seen", feed::seen),
        trial("feed::an_operator_is_told_what_holds_it_back", feed::named),
        trial("feed::a_watch_that_waits_to_begin_has_no_connection", feed::waits_without_connection),
        trial("feed::restored_rows_are_not_told", feed::restored),
        trial("given_up::a_dropped_call_ends_at_the_server", given_up::dropped),
        trial("given_up::a_late_call_ends_at_the_server", given_up::late),
        trial("heavy::much_work_leaves_the_executor", heavy::own_thread),
        trial("heavy::large_payloads_are_read_together", heavy::large_payloads),
        trial("history::racing_programs_leave_versions_in_order", history::in_order),
        trial("standby::reads_can_go_to_a_replica", standby::reads),
        trial("standby::the_primary_is_followed_after_a_failover", standby::failover),
        trial("standby::a_failover_resets_the_feed", standby::feed_reset),
        trial("standby::a_commit_waits_for_the_standby_after_its_call", standby::waits_beyond_its_call),
        trial("standby::reads_go_on_beside_commits_that_wait", standby::reads_beside_commits),
        trial("tls::each_mode_checks_what_it_promises", tls::modes),
        trial("migrations::old_writers_are_refused_by_the_server", migrations::old_writers),
        trial("migrations::a_program_below_the_minimum_only_reads", migrations::newer_minimum),
        trial("migrations::a_program_below_the_minimum_takes_no_step", migrations::no_steps),
        trial("migrations::what_operators_ask_for_has_a_deadline", migrations::deadlines),
        trial("migrations::a_long_transaction_holds_nobody_up", migrations::long_transaction),
        trial("migrations::an_autovacuum_gives_way", migrations::vacuumed),
        trial("migrations::what_is_missing_is_told", migrations::missing),
        trial("migrations::nothing_is_left_of_the_words", migrations::words_go),
        trial("migrations::words_go_beside_older_programs", migrations::beside_older_programs),
        trial("migrations::words_go_although_somebody_is_killed", migrations::killed),
        trial("migrations::older_documents_get_places_beside_running_programs", migrations::placed),
        trial("migrations::a_large_feed_gets_its_index_before", migrations::large_feed),
        trial("migrations::the_history_of_an_older_ledger_begins_when_it_is_opened", migrations::history_begins),
        trial("privileges::those_of_the_readme_are_needed_and_enough", privileges::documented),
        trial("privileges::later_steps_take_those_of_the_records", privileges::of_later_steps),
        trial("privileges::a_history_takes_those_of_its_own_records", privileges::of_documents_alone),
        trial("plans::no_recall_scans_a_table", plans::no_scan),
        trial("plans::a_sweep_reads_what_it_finds", plans::sweep),
        trial("plans::a_recall_by_vector_reads_vectors_from_their_index", plans::vectors),
        trial("plans::every_depth_has_its_index", plans::every_depth),
        trial("pooler::each_call_gets_its_own_answer", pooler::own_answers),
        trial("pooler::one_that_drops_settings_is_refused", pooler::dropped_settings),
        trial("vectors::what_has_changed_meanwhile_gets_none", vectors::changed_meanwhile),
        trial("vectors::programs_of_the_version_before_go_on", vectors::beside_older_programs),
        trial("vectors::none_is_of_an_earlier_text", vectors::raced),
        trial("vectors::they_are_refused_as_each_write_is", vectors::refused),
        trial("vectors::they_come_with_large_records", vectors::large),
    ];
    let full_disk = "refusals::a_full_disk_is_unavailable_until_there_is_room";
    trials.push(match refusals::can_mount() {
        true => trial(full_disk, refusals::full_disk),
        false => {
            Trial::test(format!("{full_disk} (only root can mount a small disk)"), || Ok(())).with_ignored_flag(true)
        }
    });
    run_waiting(AT_ONCE, trials)
}
