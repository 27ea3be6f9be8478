//! What a composer takes, and the wrapper that traces its providers.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use memory_context::state::{
    Character, ComposeOptions, Composer, ContextPlugin, ContextProvider, Cx, ProviderInfo, ProviderResult, Service,
    Services,
};
use memory_core::{ErrorKind, Result};

use crate::stage::{Scripted, records_of, stage};

fn named(name: &'static str) -> Arc<dyn ContextProvider> {
    Arc::new(Scripted::giving(ProviderInfo::named(name.to_owned(), ""), ProviderResult::text(name)))
}

#[tokio::test]
async fn a_name_is_taken_once_whoever_brings_it() {
    let builder = async || Composer::builder(Services::new(records_of("agent").await, Character::default()));
    let plugin = |name| ContextPlugin { providers: vec![named(name)], ..ContextPlugin::default() };
    for refused in [
        builder().await.provider(named("A")).provider(named("A")).build(),
        builder().await.built_in().plugin(plugin("TIME")).build(),
        builder().await.plugin(plugin("A")).plugin(plugin("A")).build(),
        builder().await.provider(named("")).build(),
    ] {
        assert_eq!(refused.expect_err("refused").kind(), ErrorKind::InvalidInput);
    }
    let composer = builder().await.built_in().plugin(plugin("MINE")).build().expect("all names differ");
    assert_eq!(composer.providers().len(), 18);
}

/// The example `CUSTOM_DATA`, which gets its data from a service of the host.
#[tokio::test]
async fn a_custom_provider_uses_a_service() {
    #[derive(Debug)]
    struct CustomService(&'static str);
    impl Service for CustomService {
        fn name(&self) -> &str {
            "customService"
        }

        fn description(&self) -> &str {
            "Custom data from an external source"
        }
    }
    let info = ProviderInfo::new("CUSTOM_DATA", "Custom data from external source").dynamic().position(150);
    let custom = Arc::new(Scripted::new(info, |cx| {
        let data = cx.services().service::<CustomService>().map(|service| service.0);
        Box::pin(async move {
            let Some(summary) = data else { return Ok(ProviderResult::default()) };
            let result = ProviderResult::text(format!("Custom data: {summary}"));
            Ok(result.with_value("customData", summary).with_data("customData", summary))
        })
    }));
    let plugin = ContextPlugin {
        providers: vec![custom],
        services: vec![Arc::new(CustomService("42"))],
        ..ContextPlugin::default()
    };
    let (composer, turn) = stage(|builder| builder.built_in().plugin(plugin)).await;
    let state = composer.compose_state(&turn, &ComposeOptions::with(["CUSTOM_DATA"])).await;
    assert_eq!(state.provider("CUSTOM_DATA").expect("it ran").text, "Custom data: 42");
    assert!(state.text.contains("customService - Custom data from an external source"), "CAPABILITIES lists it");
    assert!(state.text.contains("**CUSTOM_DATA**"), "PROVIDERS lists it");
}

/// The example `debugComposeState`, which wraps the providers and leaves those of others alone.
#[tokio::test]
async fn a_wrapper_traces_the_calls() {
    #[derive(Debug)]
    struct Traced {
        inner: Arc<dyn ContextProvider>,
        log: Arc<Mutex<Vec<String>>>,
    }
    #[async_trait]
    impl ContextProvider for Traced {
        fn info(&self) -> &ProviderInfo {
            self.inner.info()
        }

        async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
            let name = &self.info().name;
            self.log.lock().expect("no panic").push(format!("[{name}] Starting"));
            let result = self.inner.get(cx).await;
            let size = result.as_ref().map(|result| result.text.len());
            self.log.lock().expect("no panic").push(format!("[{name}] Completed: {size:?}"));
            result
        }
    }
    let (composer, turn) = stage(|builder| builder.provider(named("A")).provider(named("LONGER"))).await;
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let wrap = |inner: &Arc<dyn ContextProvider>| -> Arc<dyn ContextProvider> {
        Arc::new(Traced { inner: Arc::clone(inner), log: Arc::clone(&log) })
    };
    let traced = composer.wrapped(wrap).expect("the same names");
    let state = traced.compose_state(&turn, &ComposeOptions::default()).await;
    assert_eq!(state.text, "A\n\nLONGER");
    let mut lines = log.lock().expect("no panic").clone();
    lines.sort();
    let expected = ["[A] Completed: Ok(1)", "[A] Starting", "[LONGER] Completed: Ok(6)", "[LONGER] Starting"];
    assert_eq!(lines, expected);
    composer.compose_state(&turn, &ComposeOptions::default()).await;
    assert_eq!(log.lock().expect("no panic").len(), 4, "the composer itself is as it was");
}
