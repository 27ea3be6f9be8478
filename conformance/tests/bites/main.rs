//! Proves that the suite bites: each provider that is broken on purpose must fail the case that is named for its bug, and
//! the same wrapper without a bug must pass them all.

mod broken;
mod documents;
mod erasure;
mod expiry;
mod flaw;
mod harness;
mod history;
mod meaning;
mod naive;
mod plugin;
mod report;
mod watch;
mod wired;

use std::process::ExitCode;
use std::sync::Arc;

use conformance::{Case, Harness, Needs, Outcome, Settings, play_random_sequences, run_case};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

use flaw::Flaw;
use harness::BrokenHarness;
use wired::WiredHarness;

/// Which case must find which bug.
const BITES: &[(&str, Flaw, &str)] = &[
    ("closed_still_answers", Flaw::ClosedStillAnswers, "lifecycle.every_call_after_shutdown_is_closed"),
    ("lost_on_reopen", Flaw::LostOnReopen, "store.stored_memory_survives_a_reopen"),
    ("namespaces_are_shared", Flaw::NamespacesAreShared, "lifecycle.two_namespaces_share_nothing"),
    (
        "batch_is_partly_applied",
        Flaw::BatchIsPartlyApplied,
        "store.batch_with_a_conflict_in_its_last_item_writes_nothing",
    ),
    ("key_ignored", Flaw::KeyIgnored, "store.repeated_key_returns_the_first_id"),
    (
        "key_returns_first_whatever_the_trigger",
        Flaw::KeyReturnsFirstWhateverTheTrigger,
        "store.repeated_key_with_another_trigger_is_a_conflict",
    ),
    ("update_of_unknown_succeeds", Flaw::UpdateOfUnknownSucceeds, "update.unknown_id_is_not_found"),
    ("update_moves_created_at", Flaw::UpdateMovesCreatedAt, "update.address_trigger_and_creation_never_change"),
    ("merge_replaces", Flaw::MergeReplaces, "update.merge_follows_the_golden_table"),
    ("clear_keeps_null", Flaw::ClearKeepsNull, "update.contexts_absent_null_and_empty_differ"),
    ("empty_context_is_absent", Flaw::EmptyContextIsAbsent, "values.absent_null_and_empty_context_differ"),
    ("if_revision_ignored", Flaw::IfRevisionIgnored, "update.wrong_revision_is_a_conflict_and_writes_nothing"),
    ("restore_makes_new_ids", Flaw::RestoreMakesNewIds, "restore.memories_come_back_exactly"),
    ("newer_is_a_conflict", Flaw::NewerIsAConflict, "restore.later_versions_replace_what_is_there"),
    ("newer_counts_by_itself", Flaw::NewerCountsByItself, "restore.earlier_and_other_versions_stay_out"),
    ("newer_document_is_the_last", Flaw::NewerDocumentIsTheLast, "documents.only_later_versions_replace_what_is_there"),
    ("under_is_raw_prefix", Flaw::UnderIsRawPrefix, "spaces.under_never_leaks_a_sibling"),
    ("prefix_is_like", Flaw::PrefixIsLike, "spaces.a_prefix_finds_bytes_and_no_wildcards"),
    ("prefix_ignores_case", Flaw::PrefixIgnoresCase, "spaces.case_matters_everywhere"),
    ("glob_is_regex", Flaw::GlobIsRegex, "spaces.patterns_follow_the_table"),
    ("within_ignored", Flaw::WithinIgnored, "reading.within_narrows_what_selectors_find"),
    ("before_is_inclusive", Flaw::BeforeIsInclusive, "reading.time_bounds_follow_the_table"),
    ("limit_before_filter", Flaw::LimitBeforeFilter, "reading.filter_applies_before_the_limit"),
    ("numbers_compare_as_text", Flaw::NumbersCompareAsText, "filters.nine_is_less_than_ten"),
    ("limit_zero_is_not_set", Flaw::LimitZeroIsNotSet, "reading.a_limit_of_zero_is_an_empty_page"),
    ("pages_end_at_ten", Flaw::PagesEndAtTen, "reading.a_page_takes_a_thousand_rows"),
    ("ties_in_reverse", Flaw::TiesInReverse, "reading.five_hundred_rows_of_one_millisecond_keep_their_order"),
    ("cursor_forgets_ties", Flaw::CursorForgetsTies, "reading.a_page_may_end_inside_of_a_millisecond"),
    ("cursor_is_an_offset", Flaw::CursorIsAnOffset, "reading.a_walk_survives_appends"),
    ("exclude_ignored", Flaw::ExcludeIgnored, "reading.excluded_ids_take_no_room"),
    ("put_ignores_absent", Flaw::PutIgnoresAbsent, "documents.absent_expectation_refuses_what_exists"),
    ("put_moves_created_at", Flaw::PutMovesCreatedAt, "documents.first_put_creates_and_next_put_replaces"),
    ("put_keeps_the_space", Flaw::PutKeepsTheSpace, "documents.selectors_follow_a_new_space"),
    ("remove_ignores_max", Flaw::RemoveIgnoresMax, "documents.remove_over_max_removes_nothing"),
    ("remove_takes_ten", Flaw::RemoveTakesTen, "documents.remove_is_complete_beyond_a_page"),
    ("remove_takes_ids_by_prefix", Flaw::RemoveTakesIdsByPrefix, "documents.remove_is_exact_about_ids"),
    ("remove_leaves_text", Flaw::RemoveLeavesText, "documents.removed_documents_are_gone_everywhere"),
    ("empty_collections_are_listed", Flaw::EmptyCollectionsAreListed, "documents.collections_are_sorted_and_in_use"),
    ("text_needs_every_word", Flaw::TextNeedsEveryWord, "text.any_word_is_enough"),
    ("text_is_ranked", Flaw::TextIsRanked, "text.text_comes_in_the_order_of_the_query"),
    (
        "text_forgotten_behind_a_cursor",
        Flaw::TextForgottenBehindACursor,
        "text.ledger_text_comes_in_order_over_its_pages",
    ),
    ("text_matches_within_words", Flaw::TextMatchesWithinWords, "text.ledger_is_found_by_its_strings"),
    ("keys_are_words", Flaw::KeysAreWords, "text.ledger_is_found_by_its_strings"),
    ("cursor_forgets_its_text", Flaw::CursorForgetsItsText, "text.a_cursor_belongs_to_its_text"),
    (
        "plugin_forgets_readable_spaces",
        Flaw::PluginForgetsReadableSpaces,
        "plugin.hostile_calls_change_nothing_and_learn_nothing",
    ),
    ("plugin_ignores_dry_run", Flaw::PluginIgnoresDryRun, "plugin.dry_run_answers_what_removal_would"),
    ("second_shutdown_fails", Flaw::SecondShutdownFails, "lifecycle.shutdown_twice_and_before_init_is_harmless"),
    (
        "light_calls_wait_for_heavy_ones",
        Flaw::LightCallsWaitForHeavyOnes,
        "lifecycle.calls_get_by_beside_many_heavy_ones",
    ),
    (
        "read_only_for_its_handle_alone",
        Flaw::ReadOnlyForItsHandleAlone,
        "read_only.every_handle_and_every_restart_is_refused",
    ),
    ("read_only_comes_late", Flaw::ReadOnlyComesLate, "read_only.nothing_is_committed_behind_the_answer"),
    ("health_writes", Flaw::HealthWrites, "lifecycle.health_leaves_no_trace"),
    ("dropped_batch_is_half", Flaw::DroppedBatchIsHalf, "dropped.dropped_batches_are_whole_or_none"),
    ("dropped_update_is_half", Flaw::DroppedUpdateIsHalf, "dropped.dropped_updates_are_whole_or_none"),
    ("dropped_restore_is_half", Flaw::DroppedRestoreIsHalf, "dropped.dropped_restores_leave_whole_memories"),
    ("dropped_put_loses_the_old", Flaw::DroppedPutLosesTheOld, "dropped.dropped_puts_are_whole_or_none"),
    ("dropped_puts_are_half", Flaw::DroppedPutsAreHalf, "dropped.dropped_put_manys_are_whole_or_none"),
    ("dropped_removal_is_half", Flaw::DroppedRemovalIsHalf, "dropped.dropped_removals_are_whole_or_none"),
    ("dropped_documents_are_empty", Flaw::DroppedDocumentsAreEmpty, "dropped.dropped_restores_leave_whole_documents"),
    (
        "dropped_read_keeps_its_connection",
        Flaw::DroppedReadKeepsItsConnection,
        "dropped.dropped_reads_leave_the_provider_working",
    ),
    ("dropped_init_keeps_its_lock", Flaw::DroppedInitKeepsItsLock, "dropped.dropped_inits_can_be_repeated"),
    ("batch_has_a_cap", Flaw::BatchHasACap, "store.batch_of_10_000_is_taken"),
    ("update_loses_races", Flaw::UpdateLosesRaces, "update.racing_patches_of_different_keys_all_survive"),
    ("update_of_metadata_alone_is_dropped", Flaw::UpdateOfMetadataAloneIsDropped, "update.each_field_works_alone"),
    ("numbers_are_floats", Flaw::NumbersAreFloats, "values.metadata_numbers_are_exact"),
    ("times_are_seconds", Flaw::TimesAreSeconds, "values.times_between_the_limits_come_back_in_order"),
    ("spaces_are_folded", Flaw::SpacesAreFolded, "spaces.nothing_is_normalized"),
    ("boundaries_are_one", Flaw::BoundariesAreOne, "spaces.different_ids_never_share_a_key"),
    ("long_spaces_are_refused", Flaw::LongSpacesAreRefused, "spaces.the_deepest_and_longest_ids_work"),
    ("reads_lag_behind", Flaw::ReadsLagBehind, "store.eight_writers_find_at_once_what_they_wrote"),
    ("limit_takes_the_oldest", Flaw::LimitTakesTheOldest, "reading.the_limit_takes_the_newest"),
    ("times_forgotten_under_a_path", Flaw::TimesForgottenUnderAPath, "reading.time_bounds_hold_on_every_read_path"),
    ("not_equal_needs_the_field", Flaw::NotEqualNeedsTheField, "filters.not_equal_is_the_opposite_of_equal"),
    (
        "filter_without_hits_finds_everything",
        Flaw::FilterWithoutHitsFindsEverything,
        "filters.a_missing_field_is_no_error",
    ),
    ("examines_without_end", Flaw::ExaminesWithoutEnd, "reading.a_match_behind_many_candidates_is_found"),
    ("cursor_ends_with_its_handle", Flaw::CursorEndsWithItsHandle, "reading.a_cursor_survives_a_restart"),
    ("spaces_count_others", Flaw::SpacesCountOthers, "spaces.a_listing_shows_nothing_outside_of_within"),
    (
        "spaces_end_at_their_first_boundary",
        Flaw::SpacesEndAtTheirFirstBoundary,
        "spaces.a_listing_parts_what_lies_below_by_segments",
    ),
    (
        "put_ignores_the_revision",
        Flaw::PutIgnoresTheRevision,
        "documents.revision_expectation_takes_that_revision_only",
    ),
    (
        "puts_are_partly_applied",
        Flaw::PutsArePartlyApplied,
        "documents.put_many_with_a_conflict_in_its_last_document_puts_none",
    ),
    ("puts_take_the_last_of_an_id", Flaw::PutsTakeTheLastOfAnId, "documents.put_many_takes_an_id_once"),
    ("puts_have_a_cap", Flaw::PutsHaveACap, "documents.put_many_of_10_000_is_taken_and_one_more_is_not"),
    ("removals_both_report", Flaw::RemovalsBothReport, "documents.concurrent_removals_report_each_id_once"),
    (
        "removal_ignores_the_filter",
        Flaw::RemovalIgnoresTheFilter,
        "documents.remove_by_filter_and_text_takes_what_matches",
    ),
    ("text_hits_end_at_ten", Flaw::TextHitsEndAtTen, "text.hundreds_of_hits_are_found"),
    ("backslashes_hide_words", Flaw::BackslashesHideWords, "text.backslashes_in_a_content_hurt_no_search"),
    ("recall_counts_others", Flaw::RecallCountsOthers, "recall.nothing_outside_the_scope_changes_an_answer"),
    ("recall_drops_the_window", Flaw::RecallDropsTheWindow, "recall.a_turn_is_found_by_the_turns_beside_it"),
    ("recall_cuts_candidates", Flaw::RecallCutsCandidates, "recall.random_corpora_are_ranked_as_by_an_oracle"),
    ("recall_forgets_updates", Flaw::RecallForgetsUpdates, "recall.writes_show_in_the_next_recall"),
    ("watch_ignores_within", Flaw::WatchIgnoresWithin, "watch.nothing_outside_of_within_shows"),
    ("watch_token_means_now", Flaw::WatchTokenMeansNow, "watch.a_token_goes_on_behind_its_change"),
    ("watch_tokens_end_with_their_handle", Flaw::WatchTokensEndWithTheirHandle, "watch.a_token_survives_a_restart"),
    ("watch_goes_on_after_a_cut", Flaw::WatchGoesOnAfterALoss, "watch.a_feed_that_was_cut_is_reset"),
    ("watch_ignores_the_epoch", Flaw::WatchGoesOnAfterALoss, "watch.a_storage_that_went_back_is_reset"),
    (
        "watch_has_a_gap_behind_its_snapshot",
        Flaw::WatchHasAGapBehindItsSnapshot,
        "watch.a_snapshot_goes_on_as_the_feed",
    ),
    ("watch_omits_left", Flaw::WatchOmitsLeft, "watch.what_has_left_is_told_by_its_id"),
    ("watch_omits_moves", Flaw::WatchOmitsLeft, "watch.documents_that_move_arrive_and_leave"),
    ("watch_omits_removals", Flaw::WatchOmitsRemovals, "watch.documents_that_are_put_again_come_behind_their_removal"),
    ("watch_skips_late_commits", Flaw::WatchLooksForWhatIsNew, "watch.late_and_backdated_rows_come"),
    (
        "watch_tells_twice_in_disorder",
        Flaw::WatchTellsTwiceInDisorder,
        "watch.a_record_comes_in_the_order_of_its_revisions",
    ),
    ("watch_is_reached_too_soon", Flaw::WatchIsReachedTooSoon, "watch.what_was_there_is_told_before_it_is_reached"),
    ("watch_ends_without_a_word", Flaw::WatchEndsWithoutAWord, "watch.a_watch_ends_with_its_handle"),
    (
        "as_of_shows_a_later_version",
        Flaw::AsOfShowsALaterVersion,
        "history.as_of_gives_each_version_between_its_commits",
    ),
    ("as_of_takes_any_time", Flaw::AsOfTakesAnyTime, "history.as_of_outside_of_the_history_is_refused"),
    (
        "history_shows_what_was_removed",
        Flaw::HistoryShowsWhatWasRemoved,
        "history.a_new_put_shows_nothing_of_what_was_removed",
    ),
    ("history_misses_a_version", Flaw::HistoryMissesAVersion, "history.each_update_is_a_version"),
    ("history_names_the_last_actor", Flaw::HistoryNamesTheLastActor, "history.each_version_names_its_actor"),
    (
        "restored_versions_are_of_now",
        Flaw::RestoredVersionsAreOfNow,
        "history.versions_are_restored_with_their_times_and_actors",
    ),
    (
        "the_last_version_alone_is_restored",
        Flaw::TheLastVersionAloneIsRestored,
        "history.versions_are_restored_with_their_times_and_actors",
    ),
    ("erased_text_is_found", Flaw::ErasedTextIsFound, "erasure.nothing_finds_what_was_erased"),
    ("erased_place_is_found", Flaw::ErasedPlaceIsFound, "erasure.what_is_left_is_as_if_the_rest_had_never_been"),
    ("erased_history_stays", Flaw::ErasedHistoryStays, "erasure.an_erased_memory_has_no_history"),
    ("erased_is_forgotten", Flaw::ErasedIsForgotten, "erasure.an_erased_memory_is_gone_and_told_as_such"),
    ("erased_key_is_stored", Flaw::ErasedKeyIsStored, "erasure.a_key_that_was_erased_is_not_stored_again"),
    ("erased_comes_back_under_another_id", Flaw::ErasedComesBackUnderAnotherId, "erasure.a_backup_brings_nothing_back"),
    ("erased_documents_come_back", Flaw::ErasedDocumentsComeBack, "erasure.a_backup_brings_nothing_back"),
    ("erasure_ends_too_soon", Flaw::ErasureEndsTooSoon, "erasure.slices_are_taken_until_nothing_is_left"),
    (
        "tombstone_quotes_its_record",
        Flaw::TombstoneQuotesItsRecord,
        "erasure.an_erased_memory_is_gone_and_told_as_such",
    ),
    ("tombstone_shows_its_key", Flaw::TombstoneShowsItsKey, "erasure.a_tombstone_has_keyed_hashes_alone"),
    ("watch_omits_erasures", Flaw::WatchOmitsErasures, "erasure.a_watch_is_told_where_it_may_look"),
    ("expired_is_shown_until_swept", Flaw::ExpiredIsShownUntilSwept, "expiry.nothing_shows_from_its_millisecond_on"),
    ("expired_is_counted", Flaw::ExpiredIsCounted, "expiry.nothing_shows_from_its_millisecond_on"),
    ("expiry_is_forgotten_by_a_put", Flaw::ExpiryIsForgottenByAPut, "expiry.a_put_without_a_time_clears_it"),
    ("sweep_takes_what_was_extended", Flaw::SweepTakesWhatWasExtended, "expiry.a_sweep_goes_by_what_holds_now"),
    ("expired_id_blocks_a_put", Flaw::ExpiredIdBlocksAPut, "expiry.a_put_never_meets_what_is_over"),
    ("tombstones_of_expiry_stay", Flaw::TombstonesOfExpiryStay, "expiry.tombstones_of_expiry_go_after_90_days"),
    ("expired_key_is_stored", Flaw::ExpiredKeyIsStored, "expiry.a_key_that_is_over_is_not_stored_again"),
    ("vector_outlives_its_text", Flaw::VectorOutlivesItsText, "meaning.a_vector_goes_with_the_texts_of_its_memory"),
    ("vector_outlives_its_record", Flaw::VectorOutlivesItsRecord, "meaning.a_vector_goes_with_what_is_erased"),
    (
        "vectors_of_another_model_count",
        Flaw::VectorsOfAnotherModelCount,
        "meaning.vectors_of_another_model_count_no_more",
    ),
    (
        "places_outlive_the_model",
        Flaw::PlacesOutliveTheModel,
        "meaning.what_another_model_has_replaced_is_embedded_anew",
    ),
    ("vectors_are_rounded", Flaw::VectorsAreRounded, "meaning.vectors_come_back_bit_by_bit"),
    ("stale_vectors_are_kept", Flaw::StaleVectorsAreKept, "meaning.only_vectors_of_the_present_revision_are_kept"),
    ("a_vector_is_an_update", Flaw::AVectorIsAnUpdate, "meaning.a_vector_is_no_change_of_its_record"),
    ("a_vector_is_told", Flaw::AVectorIsAnUpdate, "meaning.no_watch_tells_of_a_vector"),
    (
        "unembedded_are_not_counted",
        Flaw::UnembeddedAreNotCounted,
        "meaning.records_without_a_vector_are_counted_and_not_found",
    ),
    ("meaning_looks_outside", Flaw::MeaningLooksOutside, "meaning.nothing_outside_the_scope_changes_an_answer"),
    (
        "meaning_looks_outside_of_random_scopes",
        Flaw::MeaningLooksOutside,
        "meaning.random_scopes_are_ranked_as_by_brute_force",
    ),
    ("goes_around_the_proxy", Flaw::GoesAroundTheProxy, "faults.requests_cut_in_the_middle_are_whole_or_none"),
    ("lost_answers_are_not_done", Flaw::LostAnswersAreNotDone, "faults.answers_cut_in_the_middle_leave_one_write"),
    ("stores_are_repeated", Flaw::StoresAreRepeated, "faults.answers_cut_in_the_middle_leave_one_write"),
    ("updates_are_repeated", Flaw::UpdatesAreRepeated, "faults.answers_cut_in_the_middle_leave_one_write"),
    ("removals_are_repeated", Flaw::RemovalsAreRepeated, "faults.answers_cut_in_the_middle_leave_one_write"),
    (
        "removal_takes_what_comes_between",
        Flaw::RemovalTakesWhatComesBetween,
        "faults.a_slow_removal_spares_what_was_put_in_its_place",
    ),
    ("batch_goes_one_by_one", Flaw::BatchGoesOneByOne, "faults.requests_cut_in_the_middle_are_whole_or_none"),
    ("puts_go_one_by_one", Flaw::PutsGoOneByOne, "faults.requests_cut_in_the_middle_are_whole_or_none"),
    ("restore_forgets_its_start", Flaw::RestoreForgetsItsStart, "faults.requests_cut_in_the_middle_are_whole_or_none"),
    ("refusal_hides_the_loss", Flaw::RefusalHidesTheLoss, "faults.what_may_have_been_done_is_never_called_not_done"),
    (
        "health_forgets_the_server",
        Flaw::HealthForgetsTheServer,
        "faults.a_server_that_refuses_is_unavailable_and_works_again",
    ),
    ("slow_is_broken", Flaw::SlowIsBroken, "faults.a_slow_server_is_waited_for"),
];

/// Bugs that the random sequences have to find. No case is about the first; the others are mistakes in what engines and the reference
/// both leave to the core, and so would be made by both.
const RANDOM_BITES: &[(&str, Flaw)] = &[
    ("status_ignored_in_union", Flaw::StatusIgnoredInUnion),
    ("merge_keeps_what_is_null", Flaw::MergeKeepsWhatIsNull),
    ("under_takes_dots", Flaw::UnderTakesDots),
    ("missing_fields_are_equal", Flaw::MissingFieldsAreEqual),
    ("text_needs_every_word", Flaw::TextNeedsEveryWord),
    ("text_matches_within_words", Flaw::TextMatchesWithinWords),
    ("keys_are_words", Flaw::KeysAreWords),
    ("spaces_count_others", Flaw::SpacesCountOthers),
    ("watch_omits_left", Flaw::WatchOmitsLeft),
    ("watch_omits_removals", Flaw::WatchOmitsRemovals),
    ("watch_ignores_within", Flaw::WatchIgnoresWithin),
    ("puts_are_partly_applied", Flaw::PutsArePartlyApplied),
    ("as_of_shows_a_later_version", Flaw::AsOfShowsALaterVersion),
    ("history_shows_what_was_removed", Flaw::HistoryShowsWhatWasRemoved),
    ("history_names_the_last_actor", Flaw::HistoryNamesTheLastActor),
    ("erased_history_stays", Flaw::ErasedHistoryStays),
    ("erased_is_forgotten", Flaw::ErasedIsForgotten),
    ("erased_key_is_stored", Flaw::ErasedKeyIsStored),
    ("watch_omits_erasures", Flaw::WatchOmitsErasures),
    ("expired_is_shown_until_swept", Flaw::ExpiredIsShownUntilSwept),
    ("expired_is_counted", Flaw::ExpiredIsCounted),
    ("expiry_is_forgotten_by_a_put", Flaw::ExpiryIsForgottenByAPut),
    ("vector_outlives_its_text", Flaw::VectorOutlivesItsText),
    ("vector_outlives_its_record", Flaw::VectorOutlivesItsRecord),
    ("stale_vectors_are_kept", Flaw::StaleVectorsAreKept),
    ("a_vector_is_an_update", Flaw::AVectorIsAnUpdate),
];
const SETTINGS: Settings = Settings { seed: 20_260_101, sequences: 400 };

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // Cases fail by panics, which is what most of them do here; the message of one that must not comes with its result.
    std::panic::set_hook(Box::new(|_| {}));
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => Arc::new(runtime),
        Err(error) => {
            eprintln!("no runtime to test on: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials = Vec::new();
    for (name, flaw, case) in BITES {
        let shared = Arc::clone(&runtime);
        trials.push(Trial::test(format!("bites::{name}"), move || bites(&shared, *flaw, case)));
        let shared = Arc::clone(&runtime);
        trials.push(Trial::test(format!("passes::{case} (beside {name})"), move || passes(&shared, case)));
    }
    for (name, flaw) in RANDOM_BITES {
        let shared = Arc::clone(&runtime);
        trials.push(Trial::test(format!("random_sequences::{name}"), move || random_sequences_bite(&shared, *flaw)));
    }
    let shared = Arc::clone(&runtime);
    trials.push(Trial::test("random_sequences::pass", move || random_sequences_pass(&shared)));
    let shared = Arc::clone(&runtime);
    trials.push(Trial::test("report::is_red", move || report::is_red(&shared)));
    let shared = Arc::clone(&runtime);
    let interrupted = move || report::tells_that_it_was_interrupted(&shared);
    trials.push(Trial::test("report::tells_that_it_was_interrupted", interrupted));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The broken provider must fail the case.
fn bites(runtime: &Runtime, flaw: Flaw, case: &str) -> Result<(), Failed> {
    let outcome = outcome(runtime, flaw, case)?;
    match outcome.is_failure() {
        true => Ok(()),
        false => Err(format!("{case} ends with {} on a provider with the bug {flaw:?}", outcome.name()).into()),
    }
}

/// The same wrapper without the bug must pass it.
fn passes(runtime: &Runtime, case: &str) -> Result<(), Failed> {
    match outcome(runtime, Flaw::None, case)? {
        Outcome::Pass => Ok(()),
        outcome => Err(format!("{outcome:?}").into()),
    }
}

fn outcome(runtime: &Runtime, flaw: Flaw, case: &str) -> Result<Outcome, Failed> {
    let case = find(case)?;
    runtime.block_on(async {
        let harness: Arc<dyn Harness> = match case.needs {
            Needs::Server => WiredHarness::new(flaw).await?,
            _ => BrokenHarness::new(flaw),
        };
        Ok(run_case(harness, case, Settings::default()).await)
    })
}

fn random_sequences_pass(runtime: &Runtime) -> Result<(), Failed> {
    let sound: Arc<dyn Harness> = BrokenHarness::new(Flaw::None);
    Ok(play_random_sequences(runtime.handle(), &sound, SETTINGS)?)
}

fn random_sequences_bite(runtime: &Runtime, flaw: Flaw) -> Result<(), Failed> {
    let broken: Arc<dyn Harness> = BrokenHarness::new(flaw);
    let Err(report) = play_random_sequences(runtime.handle(), &broken, SETTINGS) else {
        return Err(format!("the random sequences do not find {flaw:?}").into());
    };
    // What is told is small enough to read, and can be played again.
    let calls = report.lines().filter(|line| line.contains(": on handle ")).count();
    if calls > 5 {
        return Err(format!("{calls} calls are too many to show {flaw:?}: {report}").into());
    }
    let seed = report.rsplit_once("MEMORY_TEST_SEED=").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    let seed = seed.ok_or_else(|| format!("the report does not tell its seed: {report}"))?;
    match play_random_sequences(runtime.handle(), &broken, Settings { seed, sequences: 1 }) {
        Ok(()) => Err(format!("the sequence of seed {seed} does not find it again").into()),
        Err(_) => Ok(()),
    }
}

fn find(id: &str) -> Result<Case, Failed> {
    let found = conformance::all_cases().into_iter().find(|case| case.id == id);
    found.ok_or_else(|| format!("the suite has no case {id}").into())
}
