//! The results that a second composition of a message takes from the first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use memory_context::state::{ComposeOptions, Composer, ProviderInfo, ProviderResult, Turn};
use tokio::sync::Semaphore;

use crate::stage::{Calls, Scripted, stage, turn};

/// A provider whose text counts its runs.
fn counting(info: ProviderInfo) -> Scripted {
    let runs = AtomicUsize::new(0);
    Scripted::new(info, move |_| {
        let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
        Box::pin(async move { Ok(ProviderResult::text(format!("run {run}"))) })
    })
}

async fn with(providers: Vec<Scripted>) -> (Composer, Turn, Vec<Calls>) {
    let calls = providers.iter().map(Scripted::calls).collect();
    let add = |builder| {
        providers
            .into_iter()
            .fold(builder, |builder: memory_context::state::ComposerBuilder, one| builder.provider(Arc::new(one)))
    };
    let (composer, turn) = stage(add).await;
    (composer, turn, calls)
}

async fn text(composer: &Composer, turn: &Turn, options: ComposeOptions) -> String {
    composer.compose_state(turn, &options).await.text
}

#[tokio::test]
async fn a_result_is_kept_for_its_message() {
    let (composer, first, _) = with(vec![counting(ProviderInfo::new("A", ""))]).await;
    assert_eq!(text(&composer, &first, ComposeOptions::default()).await, "run 1");
    assert_eq!(text(&composer, &first, ComposeOptions::default()).await, "run 1");
    let other = turn(&composer, "another").await;
    assert_eq!(text(&composer, &other, ComposeOptions::default()).await, "run 2");
    assert_eq!(text(&composer, &first, ComposeOptions::default()).await, "run 1");
}

/// The example `composeState(message, null, false, true)`.
#[tokio::test]
async fn skipping_the_cache_runs_anew_and_takes_its_place() {
    let (composer, turn, _) = with(vec![counting(ProviderInfo::new("A", ""))]).await;
    assert_eq!(text(&composer, &turn, ComposeOptions::default()).await, "run 1");
    assert_eq!(text(&composer, &turn, ComposeOptions::default().skip_cache()).await, "run 2");
    assert_eq!(text(&composer, &turn, ComposeOptions::default()).await, "run 2");
}

#[tokio::test]
async fn named_providers_are_refreshed_with_those_that_saw_them() {
    let reading = |name: &'static str| {
        let runs = AtomicUsize::new(0);
        Scripted::new(ProviderInfo::new(name, "").position(10), move |cx| {
            let seen = cx.state().provider("A").map(|result| result.text.clone()).unwrap_or_default();
            let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
            Box::pin(async move { Ok(ProviderResult::text(format!("{run}: saw {seen}"))) })
        })
    };
    let providers = vec![
        counting(ProviderInfo::new("A", "")),
        counting(ProviderInfo::new("B", "").position(-1)),
        reading("READER"),
        counting(ProviderInfo::new("EXTRA", "").dynamic()),
    ];
    let (composer, turn, _) = with(providers).await;
    let refresh = |name: &str| ComposeOptions::default().refresh([name]);
    assert_eq!(text(&composer, &turn, refresh("A")).await, "run 1\n\nrun 1\n\n1: saw run 1");
    assert_eq!(text(&composer, &turn, refresh("A")).await, "run 1\n\nrun 2\n\n2: saw run 2");
    assert_eq!(text(&composer, &turn, refresh("READER")).await, "run 1\n\nrun 2\n\n3: saw run 2");
    assert_eq!(text(&composer, &turn, refresh("NONE")).await, "run 1\n\nrun 2\n\n3: saw run 2");
    let more = text(&composer, &turn, ComposeOptions::with(["EXTRA"])).await;
    assert_eq!(more, "run 1\n\nrun 2\n\nrun 1\n\n4: saw run 2", "others ran below it");
    assert_eq!(text(&composer, &turn, ComposeOptions::only(["READER"])).await, "5: saw ");
}

#[tokio::test]
async fn what_is_uncached_always_runs() {
    let (composer, turn, _) = with(vec![counting(ProviderInfo::new("A", "").uncached())]).await;
    assert_eq!(text(&composer, &turn, ComposeOptions::default()).await, "run 1");
    assert_eq!(text(&composer, &turn, ComposeOptions::default()).await, "run 2");
}

#[tokio::test]
async fn identical_work_is_done_once() {
    let gate = Arc::new(Semaphore::new(0));
    let open = Arc::clone(&gate);
    let slow = Scripted::new(ProviderInfo::new("SLOW", ""), move |_| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            let _permit = gate.acquire().await.expect("open");
            Ok(ProviderResult::text("slow"))
        })
    });
    let (composer, turn, calls) = with(vec![slow]).await;
    let compose = |turn: Turn| {
        let composer = composer.clone();
        tokio::spawn(async move { composer.compose_state(&turn, &ComposeOptions::default()).await })
    };
    let running: Vec<_> = (0..10).map(|_| compose(turn.clone())).collect();
    while calls[0].count() == 0 {
        tokio::task::yield_now().await;
    }
    open.add_permits(1);
    let mut cached = 0;
    for state in running {
        let state = state.await.expect("no panic");
        assert_eq!(state.text, "slow");
        cached += usize::from(state.outcomes[0].cached);
    }
    assert_eq!((calls[0].count(), cached), (1, 9));
}

#[tokio::test]
async fn whoever_waits_goes_on_when_the_first_is_dropped() {
    let gate = Arc::new(Semaphore::new(0));
    let open = Arc::clone(&gate);
    let slow = Scripted::new(ProviderInfo::new("SLOW", ""), move |_| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            let _permit = gate.acquire().await.expect("open");
            Ok(ProviderResult::text("slow"))
        })
    });
    let (composer, turn, calls) = with(vec![slow]).await;
    let compose = |turn: Turn| {
        let composer = composer.clone();
        tokio::spawn(async move { composer.compose_state(&turn, &ComposeOptions::default()).await })
    };
    let first = compose(turn.clone());
    while calls[0].count() == 0 {
        tokio::task::yield_now().await;
    }
    let second = compose(turn.clone());
    first.abort();
    while calls[0].count() < 2 {
        tokio::task::yield_now().await;
    }
    open.add_permits(1);
    assert_eq!(second.await.expect("no panic").text, "slow");
    assert!(first.await.expect_err("it was dropped").is_cancelled());
}

#[tokio::test]
async fn the_number_of_messages_is_bounded() {
    let one = Scripted::giving(ProviderInfo::new("A", ""), ProviderResult::text("a"));
    let calls = one.calls();
    let (composer, first) = stage(|builder| builder.provider(Arc::new(one)).cached_messages(10)).await;
    composer.compose_state(&first, &ComposeOptions::default()).await;
    for number in 0..30 {
        let turn = turn(&composer, &number.to_string()).await;
        composer.compose_state(&turn, &ComposeOptions::default()).await;
        assert!(composer.cache().messages().len() <= 10);
    }
    assert_eq!(calls.count(), 31);
    composer.compose_state(&first, &ComposeOptions::default()).await;
    assert_eq!(calls.count(), 32, "the one that was used the longest time ago is gone");
}

#[tokio::test]
async fn the_bytes_of_all_results_are_bounded() {
    const MIB: usize = 1 << 20;
    let large = |name| Scripted::giving(ProviderInfo::new(name, ""), ProviderResult::text("a".repeat(MIB)));
    let (composer, first) =
        stage(|builder| builder.provider(Arc::new(large("A"))).provider(Arc::new(large("B")))).await;
    composer.compose_state(&first, &ComposeOptions::default()).await;
    assert_eq!(composer.cache().messages(), [first.message.id]);
    for number in 0..40 {
        let turn = turn(&composer, &number.to_string()).await;
        composer.compose_state(&turn, &ComposeOptions::default()).await;
        assert!(2 * composer.cache().messages().len() <= 64, "after {number}");
    }
    assert!(composer.cache().get(first.message.id).is_none(), "the one that was used the longest time ago is gone");
}

#[tokio::test]
async fn results_live_for_a_time() {
    let one = Scripted::giving(ProviderInfo::new("A", ""), ProviderResult::text("a"));
    let calls = one.calls();
    let (composer, turn) = stage(|builder| builder.provider(Arc::new(one)).cache_for(Duration::from_millis(20))).await;
    // Ends when the cache has dropped it, however long that takes.
    while calls.count() < 3 {
        composer.compose_state(&turn, &ComposeOptions::default()).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_is_cached_is_read_and_cleared() {
    let (one, other) = (counted("ONE"), counted("OTHER"));
    let calls = [one.calls(), other.calls()];
    let (composer, first) = stage(|builder| builder.provider(Arc::new(one)).provider(Arc::new(other))).await;
    let second = turn(&composer, "second").await;
    let compose = async || {
        for turn in [&first, &second] {
            composer.compose_state(turn, &ComposeOptions::default()).await;
        }
        calls.each_ref().map(|calls| calls.count())
    };
    let cache = composer.cache();
    assert!(cache.get(first.message.id).is_none() && cache.messages().is_empty());
    assert_eq!(compose().await, [2, 2]);
    assert_eq!(compose().await, [2, 2]);
    let kept = cache.get(first.message.id).expect("it is known");
    assert_eq!(kept.providers.keys().collect::<Vec<_>>(), ["ONE", "OTHER"]);
    assert_eq!(kept.providers["ONE"].text, "ONE");
    let mut messages = cache.messages();
    messages.sort();
    let mut expected = vec![first.message.id, second.message.id];
    expected.sort();
    assert_eq!(messages, expected);

    cache.remove(first.message.id);
    assert!(cache.get(first.message.id).is_none());
    assert_eq!(compose().await, [3, 3], "one message was composed anew");
    cache.remove_provider("ONE");
    assert_eq!(cache.get(second.message.id).expect("known").providers.keys().collect::<Vec<_>>(), ["OTHER"]);
    assert_eq!(compose().await, [5, 3], "one provider ran anew");
    cache.clear();
    assert!(cache.get(first.message.id).is_none() && cache.get(second.message.id).is_none());
    assert_eq!(compose().await, [7, 5]);
}

fn counted(name: &'static str) -> Scripted {
    Scripted::giving(ProviderInfo::new(name, ""), ProviderResult::text(name))
}
