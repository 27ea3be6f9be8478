//! How the text is cut, and how the cuts are reported.

use std::sync::Arc;

use memory_context::state::{Budget, ComposeOptions, Cut, Keep, ProviderInfo, ProviderResult, Stability};

use crate::stage::{Scripted, stage};

#[tokio::test]
async fn a_budget_cuts_the_least_important_first_and_says_so() {
    let lines = |name: &str| (1..=5).map(|line| format!("{name}{line} xxxxxxx")).collect::<Vec<_>>().join("\n");
    let one = |info: ProviderInfo| {
        let text = lines(&info.name);
        Arc::new(Scripted::giving(info.clone(), ProviderResult::text(text.clone()).with_value(&info.name, text)))
    };
    let (composer, turn) = stage(|builder| {
        builder
            .provider(one(ProviderInfo::new("a", "").priority(10)))
            .provider(one(ProviderInfo::new("b", "").priority(90).position(1)))
            .provider(one(ProviderInfo::new("c", "").keep(Keep::Last).position(2)))
    })
    .await;
    let options = ComposeOptions::default().budget(Budget::bytes(103));
    let state = composer.compose_state(&turn, &options).await;
    let tail = "c1 xxxxxxx\n[...truncated]\nc4 xxxxxxx\nc5 xxxxxxx";
    assert_eq!(state.text, format!("{}\n\n{tail}", lines("b")));
    assert_eq!(state.text.len(), 103);
    let cut = |name: &str| state.outcome(name).expect("it ran").cut;
    assert_eq!(cut("a"), Some(Cut { lines: 5, bytes: 54 }));
    assert_eq!(cut("b"), None);
    assert_eq!(cut("c"), Some(Cut { lines: 2, bytes: 22 }));
    assert_eq!(state.values["a"], lines("a"), "values are whole");
    assert_eq!(state.values["providers"], state.text.as_str());
    let again = composer.compose_state(&turn, &ComposeOptions::default()).await;
    assert_eq!(again.text, [lines("a"), lines("b"), lines("c")].join("\n\n"), "the cache keeps them whole");
}

#[tokio::test]
async fn stable_sections_come_first_where_that_is_asked_for() {
    let one = |name: &'static str, position, stability| {
        let info = ProviderInfo::new(name, "").position(position).stability(stability);
        Arc::new(Scripted::giving(info, ProviderResult::text(name)))
    };
    let (composer, turn) = stage(|builder| {
        builder
            .provider(one("time", 0, Stability::Turn))
            .provider(one("actions", -1, Stability::Stable))
            .provider(one("messages", 100, Stability::Conversation))
            .provider(one("world", 150, Stability::Stable))
    })
    .await;
    let state = composer.compose_state(&turn, &ComposeOptions::default()).await;
    assert_eq!(state.text, "actions\n\ntime\n\nmessages\n\nworld");
    let state = composer.compose_state(&turn, &ComposeOptions::default().stable_first()).await;
    assert_eq!(state.text, "actions\n\nworld\n\nmessages\n\ntime");
}
