//! Which providers run: the example calls of both interfaces, as a table.

use std::sync::Arc;

use memory_context::state::{ComposeOptions, ComposerBuilder, ProviderInfo, ProviderResult};

use crate::stage::{Scripted, ran, stage};

/// The table of the interface: name, dynamic, private, position.
const TABLE: [(&str, bool, bool, i32); 19] = [
    ("ACTIONS", false, false, -1),
    ("ACTION_STATE", false, false, 150),
    ("ANXIETY", false, false, 0),
    ("ATTACHMENTS", true, false, 0),
    ("CAPABILITIES", false, false, 0),
    ("CHARACTER", false, false, 0),
    ("CHOICE", false, false, 0),
    ("ENTITIES", true, false, 0),
    ("EVALUATORS", false, true, 0),
    ("FACTS", true, false, 0),
    ("PROMPT_MEMORY", false, false, -10),
    ("PROVIDERS", false, false, 0),
    ("RECENT_MESSAGES", false, false, 100),
    ("REFLECTIONS", true, false, 0),
    ("RELATIONSHIPS", true, false, 0),
    ("ROLES", false, false, 0),
    ("SETTINGS", false, false, 0),
    ("TIME", false, false, 0),
    ("WORLD", true, false, 0),
];

const DEFAULTS: [&str; 12] = [
    "PROMPT_MEMORY",
    "ACTIONS",
    "ANXIETY",
    "CAPABILITIES",
    "CHARACTER",
    "CHOICE",
    "PROVIDERS",
    "ROLES",
    "SETTINGS",
    "TIME",
    "RECENT_MESSAGES",
    "ACTION_STATE",
];

#[test]
fn the_built_in_providers_are_those_of_the_table() {
    let built_in = memory_context::providers::built_in_providers();
    let infos = built_in.iter().map(|provider| provider.info());
    let found: Vec<_> = infos.map(|info| (info.name.as_ref(), info.dynamic, info.private, info.position)).collect();
    assert_eq!(found, TABLE);
}

/// The custom providers of the examples, beside the built-in ones.
fn examples(builder: ComposerBuilder) -> ComposerBuilder {
    let custom = [
        ProviderInfo::new("USER_PROFILE", "").dynamic(),
        ProviderInfo::new("EXPENSIVE_API", "Only called when explicitly included").dynamic(),
        ProviderInfo::new("INTERNAL_DEBUG", "").private(),
    ];
    custom.into_iter().fold(builder.built_in(), |builder, info| {
        builder.provider(Arc::new(Scripted::giving(info, ProviderResult::text("x"))))
    })
}

#[tokio::test]
async fn each_example_call_runs_what_it_should() {
    let (composer, turn) = stage(examples).await;
    let with = |at: usize, names: &[&'static str]| {
        let mut expected = DEFAULTS.to_vec();
        expected.splice(at..at, names.iter().copied());
        expected
    };
    let calls: [(&str, ComposeOptions, Vec<&str>, &[&str]); 13] = [
        ("composeState(message)", ComposeOptions::default(), DEFAULTS.to_vec(), &[]),
        (
            "(message, ['FACTS', 'ENTITIES'])",
            ComposeOptions::with(["FACTS", "ENTITIES"]),
            with(6, &["ENTITIES", "FACTS"]),
            &[],
        ),
        ("(message, ['CHARACTER'], true)", ComposeOptions::only(["CHARACTER"]), vec!["CHARACTER"], &[]),
        ("(message, null, false, true)", ComposeOptions::default().skip_cache(), DEFAULTS.to_vec(), &[]),
        (
            "(message, ['RECENT_MESSAGES', 'EVALUATORS'], false, false)",
            ComposeOptions::with(["RECENT_MESSAGES", "EVALUATORS"]),
            with(6, &["EVALUATORS"]),
            &[],
        ),
        (
            "(message, ['TIME', 'USER_PROFILE'], true, false)",
            ComposeOptions::only(["TIME", "USER_PROFILE"]),
            vec!["TIME", "USER_PROFILE"],
            &[],
        ),
        ("(message, ['EXPENSIVE_API'])", ComposeOptions::with(["EXPENSIVE_API"]), with(10, &["EXPENSIVE_API"]), &[]),
        ("a private one by name", ComposeOptions::with(["INTERNAL_DEBUG"]), with(10, &["INTERNAL_DEBUG"]), &[]),
        ("(message, ['ACTIONS'])", ComposeOptions::with(["ACTIONS"]), DEFAULTS.to_vec(), &[]),
        ("only, without names", ComposeOptions::only(Vec::<String>::new()), Vec::new(), &[]),
        ("with, without names", ComposeOptions::with(Vec::<String>::new()), DEFAULTS.to_vec(), &[]),
        ("only an unknown name", ComposeOptions::only(["NOPE"]), Vec::new(), &["NOPE"]),
        (
            "what the message flow asks for",
            ComposeOptions::only(["ANXIETY", "SHOULD_RESPOND", "ENTITIES", "CHARACTER", "RECENT_MESSAGES", "ACTIONS"]),
            vec!["ACTIONS", "ANXIETY", "CHARACTER", "ENTITIES", "RECENT_MESSAGES"],
            &["SHOULD_RESPOND"],
        ),
    ];
    for (call, options, expected, unknown) in calls {
        let state = composer.compose_state(&turn, &options).await;
        assert_eq!(ran(&state), expected, "{call}");
        assert_eq!(state.unknown, unknown, "{call}");
    }
}

#[tokio::test]
async fn only_what_is_selected_contributes_also_from_the_cache() {
    let (composer, turn) = stage(|builder| {
        let one = ProviderResult::text("one").with_value("a", 1).with_value("shared", "one");
        let two = ProviderResult::text("two").with_value("b", 2).with_value("shared", "two");
        builder
            .provider(Arc::new(Scripted::giving(ProviderInfo::new("ONE", ""), one)))
            .provider(Arc::new(Scripted::giving(ProviderInfo::new("TWO", "").position(1), two)))
    })
    .await;
    let all = composer.compose_state(&turn, &ComposeOptions::default()).await;
    assert_eq!(all.values["shared"], "two");
    let one = composer.compose_state(&turn, &ComposeOptions::only(["ONE"])).await;
    assert!(one.outcome("ONE").expect("it ran").cached);
    assert_eq!((one.text.as_str(), &one.values["shared"]), ("one", &"one".into()));
    assert!(!one.values.contains_key("b") && one.provider("TWO").is_none());
    let none = composer.compose_state(&turn, &ComposeOptions::only(Vec::<String>::new())).await;
    assert_eq!((none.text.as_str(), none.values.len(), none.data.providers.len()), ("", 1, 0), "only the text itself");
}
