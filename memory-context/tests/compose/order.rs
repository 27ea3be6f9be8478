//! The order in which providers run, and the results of others that each sees.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory_context::state::{Collision, ComposeOptions, ProviderInfo, ProviderResult};
use tokio::sync::Barrier;

use crate::stage::{Scripted, ran, stage};

/// The examples: `EARLY` at -100, `LATE` at 200, `CRITICAL_DATA` at -10, `supplementalProvider` at 10.
#[tokio::test]
async fn lower_positions_run_first() {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let logging = |name: &'static str, position| {
        let log = Arc::clone(&log);
        Arc::new(Scripted::new(ProviderInfo::new(name, "").position(position), move |_| {
            let log = Arc::clone(&log);
            Box::pin(async move {
                log.lock().expect("no panic").push(format!("{name} begins"));
                tokio::task::yield_now().await;
                log.lock().expect("no panic").push(format!("{name} ends"));
                Ok(ProviderResult::text(name))
            })
        }))
    };
    let (composer, turn) = stage(|builder| {
        builder
            .provider(logging("LATE", 200))
            .provider(logging("SUPPLEMENTAL", 10))
            .provider(logging("EARLY", -100))
            .provider(logging("CRITICAL_DATA", -10))
    })
    .await;
    let state = composer.compose_state(&turn, &ComposeOptions::default()).await;
    let names = ["EARLY", "CRITICAL_DATA", "SUPPLEMENTAL", "LATE"];
    assert_eq!(ran(&state), names);
    assert_eq!(state.text, names.join("\n\n"));
    let expected: Vec<_> = names.iter().flat_map(|name| [format!("{name} begins"), format!("{name} ends")]).collect();
    assert_eq!(*log.lock().expect("no panic"), expected);
}

#[tokio::test]
async fn equal_positions_run_at_the_same_time_and_keep_the_order_of_their_registration() {
    // Each waits until both have begun.
    let barrier = Arc::new(Barrier::new(2));
    let meeting = |name: &'static str| {
        let barrier = Arc::clone(&barrier);
        Arc::new(Scripted::new(ProviderInfo::new(name, ""), move |cx| {
            let barrier = Arc::clone(&barrier);
            assert!(cx.state().data.providers.is_empty(), "nothing of its own position");
            Box::pin(async move {
                barrier.wait().await;
                Ok(ProviderResult::text(name).with_value("last", name))
            })
        }))
    };
    let (composer, turn) = stage(|builder| builder.provider(meeting("Z")).provider(meeting("A"))).await;
    let state = composer.compose_state(&turn, &ComposeOptions::default()).await;
    assert_eq!(state.text, "Z\n\nA");
    assert_eq!(state.values["last"], "A");
    assert_eq!(state.collisions, [Collision { value: "last".into(), kept: "A".into(), lost: "Z".into() }]);
}

/// The example `DEPENDENT` at 200, which reads `state.data.providers.CHARACTER.data`, on the very first composition.
#[tokio::test]
async fn a_dependent_provider_sees_what_lower_ones_gave() {
    let dependent = || {
        Arc::new(Scripted::new(ProviderInfo::new("DEPENDENT", "").position(200), |cx| {
            let character = cx.state().provider("CHARACTER").map(|result| result.data.clone());
            let name = cx.state().values.get("agentName").cloned();
            Box::pin(async move {
                let Some(character) = character else { return Ok(ProviderResult::default()) };
                let text = format!("Processed: {}", character["character"]["name"].as_str().unwrap_or_default());
                Ok(ProviderResult::text(text).with_value("processed", name.unwrap_or_default()))
            })
        }))
    };
    let (composer, turn) = stage(|builder| builder.provider(dependent()).built_in()).await;
    let state = composer.compose_state(&turn, &ComposeOptions::default()).await;
    assert_eq!(state.provider("DEPENDENT").expect("it ran").text, "Processed: Alice");
    assert_eq!(state.values["processed"], "Alice");
    let alone = composer.compose_state(&turn, &ComposeOptions::only(["DEPENDENT"])).await;
    assert!(alone.provider("DEPENDENT").expect("it ran").is_empty(), "what it saw before does not count here");
}

/// The two examples of circular dependencies end: here by position, without waiting for each other.
#[tokio::test]
async fn providers_that_look_for_each_other_do_not_wait() {
    let looking = |name: &'static str, other: &'static str, position| {
        Arc::new(Scripted::new(ProviderInfo::new(name, "").position(position), move |cx| {
            let found = cx.state().provider(other).map(|result| result.text.clone());
            Box::pin(async move {
                Ok(ProviderResult::text(format!("{name} saw {}", found.as_deref().unwrap_or("nothing"))))
            })
        }))
    };
    let (composer, turn) =
        stage(|builder| builder.provider(looking("B", "A", 200)).provider(looking("A", "B", 100))).await;
    let state = composer.compose_state(&turn, &ComposeOptions::default()).await;
    assert_eq!(state.text, "A saw nothing\n\nB saw A saw nothing");
}

#[tokio::test(start_paused = true)]
async fn concurrent_providers_take_the_time_of_the_slowest() {
    let slow = |name: &'static str, seconds| {
        Arc::new(Scripted::new(ProviderInfo::new(name, ""), move |_| {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok(ProviderResult::text(name))
            })
        }))
    };
    let (composer, turn) = stage(|builder| builder.provider(slow("A", 3)).provider(slow("B", 4))).await;
    let start = tokio::time::Instant::now();
    let state = composer.compose_state(&turn, &ComposeOptions::default()).await;
    assert_eq!(start.elapsed().as_secs(), 4, "by the paused clock");
    assert_eq!(state.outcome("A").expect("it ran").duration.as_secs(), 3);
}
