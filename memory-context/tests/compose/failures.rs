//! How a composition handles failing providers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use memory_context::state::{ComposeOptions, Composer, ProviderInfo, ProviderResult, ProviderStatus, Turn};
use memory_core::{Error, ErrorKind};

use crate::stage::{Scripted, ran, stage};

const HOUR: Duration = Duration::from_secs(3_600);

fn good(name: &'static str) -> Arc<Scripted> {
    Arc::new(Scripted::giving(ProviderInfo::new(name, ""), ProviderResult::text(name).with_value(name, true)))
}

fn failing(name: &'static str) -> Scripted {
    Scripted::new(ProviderInfo::new(name, ""), |_| {
        Box::pin(async { Err(Error::new(ErrorKind::Unavailable, "the service is down")) })
    })
}

/// The example `EXTERNAL_API`, in which the provider does not handle its error.
#[tokio::test]
async fn a_failure_is_visible_and_the_others_go_on() {
    let bad = failing("EXTERNAL_API");
    let calls = bad.calls();
    let (composer, turn) =
        stage(|builder| builder.provider(good("A")).provider(Arc::new(bad)).provider(good("B"))).await;
    for round in 1..=2 {
        let state = composer.compose_state(&turn, &ComposeOptions::default()).await;
        assert_eq!(state.text, "A\n\nB");
        let outcome = state.outcome("EXTERNAL_API").expect("it ran");
        assert_eq!((outcome.status, outcome.bytes, outcome.cached), (ProviderStatus::Failed, 0, false));
        assert_eq!(outcome.error.as_ref().map(Error::kind), Some(ErrorKind::Unavailable));
        assert!(state.provider("EXTERNAL_API").is_none(), "it looks like nothing that it gave");
        assert_eq!(calls.count(), round, "a failure is not cached");
    }
}

#[tokio::test]
async fn a_panic_is_a_failure() {
    let bad = Scripted::new(ProviderInfo::new("BAD", ""), |_| Box::pin(async { panic!("xyzzy") }));
    let (composer, turn) = stage(|builder| builder.provider(Arc::new(bad)).provider(good("A"))).await;
    let state = composer.compose_state(&turn, &ComposeOptions::default()).await;
    assert_eq!(state.outcome("BAD").expect("it ran").status, ProviderStatus::Failed);
    assert_eq!(state.text, "A");
    let json = serde_json::to_value(&state).expect("JSON");
    assert_eq!(json["outcomes"][0]["error"], "Unexpected: the provider panicked");
}

#[tokio::test]
async fn nothing_is_told_from_failure() {
    let empty = Arc::new(Scripted::giving(ProviderInfo::new("EMPTY", ""), ProviderResult::text(" \n")));
    let (composer, turn) = stage(|builder| builder.provider(empty).provider(good("A"))).await;
    let state = composer.compose_state(&turn, &ComposeOptions::default()).await;
    assert_eq!(state.outcome("EMPTY").expect("it ran").status, ProviderStatus::Empty);
    assert_eq!(state.outcome("A").expect("it ran").status, ProviderStatus::Ok);
    assert_eq!(state.text, "A");
}

/// The example `TIMEOUT_SAFE`, without the race that the provider runs there: the future is dropped.
#[tokio::test(start_paused = true)]
async fn a_slow_provider_is_given_up_and_ends() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let has_ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_ended);
    let slow = Scripted::new(ProviderInfo::new("TIMEOUT_SAFE", ""), move |_| {
        let dropped = Dropped(Arc::clone(&flag));
        Box::pin(async move {
            let _dropped = dropped;
            tokio::time::sleep(HOUR).await;
            Ok(ProviderResult::text("late"))
        })
    });
    let calls = slow.calls();
    let (composer, turn) = stage(|builder| builder.provider(Arc::new(slow)).provider(good("A"))).await;
    let start = tokio::time::Instant::now();
    let state = composer.compose_state(&turn, &ComposeOptions::default()).await;
    assert_eq!(start.elapsed(), Duration::from_secs(5), "the default, by the paused clock");
    assert!(has_ended.load(Ordering::SeqCst), "it does not run on");
    assert_eq!(state.outcome("TIMEOUT_SAFE").expect("it ran").status, ProviderStatus::TimedOut);
    assert_eq!(state.text, "A");
    composer.compose_state(&turn, &ComposeOptions::default()).await;
    assert_eq!(calls.count(), 2, "it is not cached");
}

#[tokio::test(start_paused = true)]
async fn each_provider_has_its_own_deadline() {
    let taking = |name: &'static str, deadline, time| {
        let info = ProviderInfo::new(name, "").deadline(Duration::from_secs(deadline));
        Arc::new(Scripted::new(info, move |_| {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(time)).await;
                Ok(ProviderResult::text(name))
            })
        }))
    };
    let (composer, turn) =
        stage(|builder| builder.provider(taking("SHORT", 1, 2)).provider(taking("LONG", 20, 10))).await;
    let state = composer.compose_state(&turn, &ComposeOptions::default()).await;
    assert_eq!(state.outcome("SHORT").expect("it ran").status, ProviderStatus::TimedOut);
    assert_eq!(state.text, "LONG");
}

#[tokio::test(start_paused = true)]
async fn past_the_deadline_of_the_composition_nothing_begins() {
    let slow = Scripted::new(ProviderInfo::new("SLOW", "").position(1), |_| {
        Box::pin(async {
            tokio::time::sleep(HOUR).await;
            Ok(ProviderResult::default())
        })
    });
    let late = Scripted::giving(ProviderInfo::new("LATE", "").position(2), ProviderResult::text("late"));
    let calls = late.calls();
    let (composer, turn) =
        stage(|builder| builder.provider(good("A")).provider(Arc::new(slow)).provider(Arc::new(late))).await;
    let options = ComposeOptions::default().deadline(Duration::from_secs(1));
    let state = composer.compose_state(&turn, &options).await;
    let statuses: Vec<_> = state.outcomes.iter().map(|outcome| outcome.status).collect();
    assert_eq!(ran(&state), ["A", "SLOW", "LATE"]);
    assert_eq!(statuses, [ProviderStatus::Ok, ProviderStatus::TimedOut, ProviderStatus::Skipped]);
    assert_eq!((state.text.as_str(), calls.count()), ("A", 0));
}

/// The two examples of circular dependencies, unchanged: each composes the other. They end by their deadline.
#[tokio::test(start_paused = true)]
async fn providers_that_compose_each_other_end() {
    let place: Arc<OnceLock<(Composer, Turn)>> = Arc::default();
    let composing = |name: &'static str, other: &'static str| {
        let place = Arc::clone(&place);
        Arc::new(Scripted::new(ProviderInfo::new(name, "").dynamic(), move |_| {
            let place = Arc::clone(&place);
            Box::pin(async move {
                let (composer, turn) = place.get().expect("it is set");
                let state = composer.compose_state(turn, &ComposeOptions::only([other])).await;
                Ok(ProviderResult::text(state.text))
            })
        }))
    };
    let (composer, turn) = stage(|builder| builder.provider(composing("A", "B")).provider(composing("B", "A"))).await;
    place.set((composer.clone(), turn.clone())).expect("it is set once");
    let start = tokio::time::Instant::now();
    let state = composer.compose_state(&turn, &ComposeOptions::only(["A"])).await;
    assert_eq!(start.elapsed(), Duration::from_secs(5), "by the paused clock");
    assert!(state.text.is_empty(), "{state:?}");
}
