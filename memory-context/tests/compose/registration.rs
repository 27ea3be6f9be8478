//! The parts that a composer accepts, and the wrapper that traces its providers.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use memory_context::state::{
    Character, ComposeOptions, Composer, ContextParts, ContextProvider, Cx, ProviderInfo, ProviderResult, Service,
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
    let plugin = |name| ContextParts::default().with_provider(named(name));
    for refused in [
        builder().await.provider(named("A")).provider(named("A")).build(),
        builder().await.built_in().parts(plugin("TIME")).build(),
        builder().await.parts(plugin("A")).parts(plugin("A")).build(),
        builder().await.provider(named("")).build(),
    ] {
        assert_eq!(refused.expect_err("refused").kind(), ErrorKind::InvalidInput);
    }
    let composer = builder().await.built_in().parts(plugin("MINE")).build().expect("all names differ");
    assert_eq!(composer.services().providers().len(), 20);
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
    let plugin = ContextParts::default().with_provider(custom).with_service(Arc::new(CustomService("42")));
    let (composer, turn) = stage(|builder| builder.built_in().parts(plugin)).await;
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

/// Parts of each kind that are registered while the agent runs.
mod changes {
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, Ordering};

    use memory_context::providers::{Advice, Anxiety, Time};
    use memory_context::state::{ContextPart, ContextPlugin, Values};
    use memory_context::template::{Template, Templates};
    use memory_core::Error;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn providers_come_go_and_take_the_places_of_others() {
        let (composer, turn) = stage(|builder| builder.built_in()).await;
        let only = |names: &[&str]| ComposeOptions::only(names.iter().copied());
        let compose = async |names: &[&str]| composer.compose_state(&turn, &only(names)).await;

        composer.add(ContextParts::default().with_provider(named("MINE"))).expect("a new name");
        assert_eq!(compose(&["MINE"]).await.text, "MINE");
        let taken = ContextParts::default().with_provider(named("OTHER")).with_provider(named("TIME"));
        assert_eq!(composer.add(taken).expect_err("taken").kind(), ErrorKind::InvalidInput);
        assert_eq!(compose(&["OTHER"]).await.unknown, ["OTHER"], "all or none");

        // A built-in one is replaced, and its cached result does not count.
        assert_eq!(compose(&["CHARACTER"]).await.text, "");
        composer.replace(ContextParts::default().with_provider(named("CHARACTER"))).expect("a name");
        assert_eq!(compose(&["CHARACTER"]).await.text, "CHARACTER");
        let before = composer.services().providers().len();
        composer
            .replace(ContextParts::default().with_provider(Arc::new(Time)).with_provider(named("LATE")))
            .expect("names");
        assert_eq!(composer.services().providers().len(), before + 1);

        assert!(composer.remove(&ContextPart::Provider("TIME".into())));
        assert!(!composer.remove(&ContextPart::Provider("TIME".into())));
        assert_eq!(compose(&["TIME"]).await.unknown, ["TIME"]);
        let kept = ContextParts::default().with_provider(named(""));
        assert_eq!(composer.replace(kept).expect_err("no name").kind(), ErrorKind::InvalidInput);
    }

    #[tokio::test]
    async fn the_advice_of_a_host_takes_the_place_of_the_built_in_one() {
        let (composer, turn) = stage(|builder| builder.built_in()).await;
        let advice: Advice = serde_json::from_str(r#"{"direct":["Sing."]}"#).expect("advice");
        assert_eq!((advice.group.len(), advice.direct.len()), (10, 1), "what is left out stays");
        composer.replace(ContextParts::default().with_provider(Arc::new(Anxiety::with(advice)))).expect("a name");
        let state = composer.compose_state(&turn, &ComposeOptions::only(["ANXIETY"])).await;
        assert_eq!(state.text, "# How to answer here\nSing.");
    }

    #[tokio::test]
    async fn a_composition_goes_on_with_what_it_began_with() {
        let gate = Arc::new(Semaphore::new(0));
        let waits = Arc::clone(&gate);
        let slow = Scripted::new(ProviderInfo::new("SLOW", ""), move |_| {
            let waits = Arc::clone(&waits);
            Box::pin(async move {
                waits.acquire().await.expect("open").forget();
                Ok(ProviderResult::text("slow"))
            })
        });
        let late = Scripted::new(ProviderInfo::new("LATE", "").position(1), |cx| {
            let names: Vec<_> = cx.providers().map(|info| info.name.to_string()).collect();
            Box::pin(async move { Ok(ProviderResult::text(names.join("+"))) })
        });
        let (composer, turn) = stage(|builder| builder.provider(Arc::new(slow)).provider(Arc::new(late))).await;
        let options = ComposeOptions::default();
        let mut first = Box::pin(composer.compose_state(&turn, &options));
        assert!(futures::poll!(first.as_mut()).is_pending());
        composer.remove(&ContextPart::Provider("LATE".into()));
        composer
            .replace(ContextParts::default().with_provider(named("SLOW")).with_provider(named("NEW")))
            .expect("names");
        gate.add_permits(1);
        assert_eq!(first.await.text, "slow\n\nSLOW+LATE");
        let second = composer.compose_state(&turn, &options).await;
        assert_eq!(second.text, "SLOW\n\nNEW", "what the first one got is not what counts now");
        assert!(second.outcomes.iter().all(|outcome| !outcome.cached));
    }

    #[derive(Debug, Default)]
    struct Weather {
        is_over: AtomicBool,
        brings: Option<&'static str>,
    }

    #[async_trait]
    impl ContextPlugin for Weather {
        fn name(&self) -> &str {
            "weather"
        }

        async fn init(&self, config: &Values, services: &Services) -> Result<ContextParts> {
            let place = config.get("place").and_then(|place| place.as_str());
            let place = place.ok_or_else(|| Error::invalid("the weather of which place?"))?;
            let text = format!("{} looks at the sky of {place}", services.character().name);
            let provider = Scripted::giving(ProviderInfo::new("WEATHER", ""), ProviderResult::text(text));
            let parts = ContextParts::default().with_provider(Arc::new(provider));
            Ok(self.brings.into_iter().fold(parts, |parts, name| parts.with_provider(named(name))))
        }

        async fn shutdown(&self) -> Result<()> {
            self.is_over.store(true, Ordering::SeqCst);
            Ok(())
        }
    }

    fn config(place: &str) -> Values {
        Values::from_iter([("place".to_owned(), place.into())])
    }

    #[tokio::test]
    async fn a_plugin_begins_and_ends_with_its_parts() {
        let (composer, turn) = stage(|builder| builder.provider(named("A"))).await;
        let compose = async || composer.compose_state(&turn, &ComposeOptions::default()).await.text;

        let refused = composer.install(Arc::new(Weather::default()), &Values::new()).await;
        assert_eq!(refused.expect_err("no place").kind(), ErrorKind::InvalidInput);
        let clashing = Arc::new(Weather { brings: Some("A"), ..Weather::default() });
        let refused = composer.install(Arc::clone(&clashing) as _, &config("Lima")).await;
        assert_eq!(refused.expect_err("A is taken").kind(), ErrorKind::InvalidInput);
        assert!(clashing.is_over.load(Ordering::SeqCst), "it was begun, so it is ended");
        assert_eq!(compose().await, "A");

        let weather = Arc::new(Weather { brings: Some("B"), ..Weather::default() });
        composer.install(Arc::clone(&weather) as _, &config("Lima")).await.expect("installed");
        assert_eq!(compose().await, "A\n\nAlice looks at the sky of Lima\n\nB");
        let again = composer.install(Arc::new(Weather::default()), &config("Lima")).await;
        assert_eq!(again.expect_err("the name is taken").kind(), ErrorKind::InvalidInput);
        composer.replace(ContextParts::default().with_provider(named("B"))).expect("a name");

        assert!(!weather.is_over.load(Ordering::SeqCst));
        assert!(composer.uninstall("weather").await.expect("ended"));
        assert!(weather.is_over.load(Ordering::SeqCst));
        assert_eq!(compose().await, "A\n\nB", "what the host put in the place of a part stays");
        assert!(!composer.uninstall("weather").await.expect("nothing to do"));

        let last = Arc::new(Weather::default());
        composer.install(Arc::clone(&last) as _, &config("Quito")).await.expect("the name is free");
        composer.shutdown().await.expect("ended");
        assert!(last.is_over.load(Ordering::SeqCst));
        assert_eq!(compose().await, "A\n\nB");
    }

    /// A plugin whose start and end do as told.
    #[derive(Debug)]
    struct Unruly {
        name: &'static str,
        init: Way,
        shutdown: Way,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Way {
        Well,
        Hang,
        Panic,
    }

    impl Way {
        async fn go(self) {
            match self {
                Self::Well => {}
                Self::Hang => pending().await,
                Self::Panic => panic!("as a test"),
            }
        }
    }

    #[async_trait]
    impl ContextPlugin for Unruly {
        fn name(&self) -> &str {
            self.name
        }

        async fn init(&self, _: &Values, _: &Services) -> Result<ContextParts> {
            self.init.go().await;
            Ok(ContextParts::default().with_provider(named(self.name)))
        }

        async fn shutdown(&self) -> Result<()> {
            self.shutdown.go().await;
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_hangs_or_panics_holds_up_nobody() {
        use ErrorKind::{Closed, InvalidInput, Timeout, Unexpected};
        use Way::{Hang, Panic, Well};
        let (composer, turn) = stage(|builder| builder).await;
        let compose = async || composer.compose_state(&turn, &ComposeOptions::default()).await.text;
        let install = async |name, init, shutdown| {
            composer.install(Arc::new(Unruly { name, init, shutdown }), &Values::new()).await
        };
        // While one starts, others are added and removed, and its name is taken.
        let mut hanging = Box::pin(install("a", Hang, Well));
        assert!(futures::poll!(hanging.as_mut()).is_pending());
        assert_eq!(install("a", Well, Well).await.expect_err("taken").kind(), InvalidInput);
        install("b", Well, Panic).await.expect("installed");
        assert!(!composer.uninstall("a").await.expect("nothing to do yet"));
        assert_eq!(hanging.await.expect_err("late").kind(), Timeout);
        assert_eq!(install("a", Panic, Well).await.expect_err("no plugin").kind(), Unexpected);
        install("a", Well, Hang).await.expect("the name is free");
        assert_eq!(compose().await, "b\n\na");

        // A plugin whose end fails is removed all the same.
        assert_eq!(composer.uninstall("b").await.expect_err("it panics").kind(), Unexpected);
        let mut ending = Box::pin(composer.uninstall("a"));
        assert!(futures::poll!(ending.as_mut()).is_pending());
        assert_eq!(compose().await, "");
        assert_eq!(install("a", Well, Well).await.expect_err("it is not over").kind(), InvalidInput);
        install("c", Well, Well).await.expect("installed");
        assert_eq!(ending.await.expect_err("late").kind(), Timeout);

        // A future that is dropped frees the name.
        {
            let mut dropped = Box::pin(install("a", Hang, Well));
            assert!(futures::poll!(dropped.as_mut()).is_pending());
        }
        install("a", Well, Hang).await.expect("the name is free");
        let mut beginning = Box::pin(install("d", Hang, Well));
        assert!(futures::poll!(beginning.as_mut()).is_pending());
        assert_eq!(composer.shutdown().await.expect_err("one hangs").kind(), Timeout);
        assert_eq!(compose().await, "", "the others are gone too");
        assert_eq!(install("e", Well, Well).await.expect_err("no more").kind(), Closed);
        assert_eq!(beginning.await.expect_err("late").kind(), Timeout);
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_is_ready_after_the_shutdown_is_ended() {
        let (composer, turn) = stage(|builder| builder).await;
        let (begin, is_over) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
        let late = Arc::new(Late { begin: Arc::clone(&begin), is_over: Arc::clone(&is_over) });
        let config = Values::new();
        let mut installing = Box::pin(composer.install(late, &config));
        assert!(futures::poll!(installing.as_mut()).is_pending());
        composer.shutdown().await.expect("nothing to end");
        begin.add_permits(1);
        assert_eq!(installing.await.expect_err("too late").kind(), ErrorKind::Closed);
        assert!(is_over.load(Ordering::SeqCst));
        assert_eq!(composer.compose_state(&turn, &ComposeOptions::default()).await.text, "");
    }

    /// A plugin that becomes ready when the test allows it.
    #[derive(Debug)]
    struct Late {
        begin: Arc<Semaphore>,
        is_over: Arc<AtomicBool>,
    }

    #[async_trait]
    impl ContextPlugin for Late {
        fn name(&self) -> &str {
            "late"
        }

        async fn init(&self, _: &Values, _: &Services) -> Result<ContextParts> {
            self.begin.acquire().await.expect("it stays open").forget();
            Ok(ContextParts::default().with_provider(named("late")))
        }

        async fn shutdown(&self) -> Result<()> {
            self.is_over.store(true, Ordering::SeqCst);
            Ok(())
        }
    }

    #[tokio::test]
    async fn templates_are_replaced() {
        let (composer, turn) = stage(|builder| builder.built_in()).await;
        let before = composer.services();
        let mut templates = Templates::default();
        templates.reflection = Template::parse("How was {{agentName}}?").expect("a template");
        composer.set_templates(templates);
        let state = composer.compose_state(&turn, &ComposeOptions::only(["CHARACTER"])).await;
        let text = |services: &Services| services.templates().reflection.render(&state.values).expect("rendered").text;
        assert_eq!(text(&composer.services()), "How was Alice?");
        assert_ne!(text(&before), "How was Alice?", "who began before has what was there");
    }
}
