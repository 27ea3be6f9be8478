//! The parameters of a URL.

use std::num::NonZeroU32;
use std::time::Duration;

use memory_core::engine::Config;
use memory_core::{Host, Language, Password};
use memory_redis::{RedisConfig, Topology, Wait};

fn host(name: &str, port: u16) -> Host {
    Host { name: name.to_owned(), port }
}

#[test]
fn urls_name_servers_sentinels_and_clusters() {
    let topology = |url: &str| RedisConfig::from_url(url).expect(url).topology;
    assert_eq!(topology("redis://"), Topology::Server(host("localhost", 6379)));
    assert_eq!(topology("rediss://u:p@[::1]:99/3"), Topology::Server(host("::1", 99)));
    assert_eq!(topology("redis+cluster://a:1,b"), Topology::Cluster(vec![host("a", 1), host("b", 6379)]));
    let sentinel = RedisConfig::from_url("redis+sentinel://a,b:1/main/5?sentinel_password=xyzzy").expect("valid");
    assert_eq!(sentinel.database, 5);
    let Topology::Sentinel { sentinels, primary, login } = sentinel.topology else { panic!("no sentinels") };
    assert_eq!((sentinels, primary.as_str()), (vec![host("a", 26379), host("b", 1)], "main"));
    assert_eq!(login.password, Some(Password("xyzzy".to_owned())));
}

#[test]
fn credentials_are_decoded_and_never_shown() {
    let config = RedisConfig::from_url("redis://us%40er:p%3A%2Fxyzzy@h").expect("valid");
    assert_eq!(config.login.user.as_deref(), Some("us@er"));
    assert_eq!(config.login.password, Some(Password("p:/xyzzy".to_owned())));
    assert!(!format!("{config:?}").contains("xyzzy"));
    let config = RedisConfig::from_url("redis://:xyzzy@h").expect("valid");
    assert_eq!((config.login.user, config.login.password.is_some()), (None, true));
}

#[test]
fn waiting_has_a_number_and_a_time() {
    let wait = |url: &str| RedisConfig::from_url(url).expect(url).wait;
    let expected = |replicas, millis| {
        let replicas = NonZeroU32::new(replicas).expect("not zero");
        Some(Wait { replicas, timeout: Duration::from_millis(millis) })
    };
    assert_eq!(wait("redis://h"), None);
    assert_eq!(wait("redis://h?wait_replicas=2"), expected(2, 1_000));
    assert_eq!(wait("redis://h?wait_timeout_ms=50"), expected(1, 50));
    assert_eq!(wait("redis://h?wait_timeout_ms=50&wait_replicas=2"), expected(2, 50));
}

#[test]
fn the_language_is_english_unless_it_is_named() {
    let language = |url: &str| RedisConfig::from_url(url).expect(url).settings().language;
    assert_eq!(language("redis://h"), Language::English);
    assert_eq!(language("redis://h?language=german"), Language::German);
    assert_eq!(language("redis://h?language=none"), Language::None);
}

#[test]
fn mistakes_are_named_and_quote_nothing() {
    for (url, named) in [
        ("mysql://u:xyzzy@h", "redis://"),
        ("redis+ring://u:xyzzy@h", "redis://"),
        ("redis://u:xyzzy@h:port", "port"),
        ("redis://u:xyzzy@h/notes", "database"),
        ("redis://u:xyzzy@a,b", "redis+cluster://"),
        ("redis+sentinel://u:xyzzy@a,b", "PRIMARY"),
        ("redis://u:1?xyzzy@h", "percent-encoded"),
        ("redis://u:1/xyzzy@h", "percent-encoded"),
        ("redis://h?password=xyzzy", "password"),
        ("redis://h?wait_replicas=0", "wait_replicas"),
        ("redis://h?kept_changes=99999", "kept_changes"),
        ("redis://h?language=xyzzy", "language"),
        ("redis://h?text_index=xyzzy", "text_index"),
        ("redis://h?sentinel_user=xyzzy", "sentinel_user"),
        ("redis://h?tls_ca_file=xyzzy", "rediss"),
        ("rediss://h?tls_cert_file=xyzzy", "must be given together"),
    ] {
        let error = RedisConfig::from_url(url).expect_err(url);
        assert!(error.message().contains(named), "{error}");
        assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
    }
}

#[test]
fn a_namespace_is_one_hash_tag() {
    let check = |namespace: &str| {
        let mut config = RedisConfig::from_url("redis://h").expect("valid");
        config.namespace = namespace.to_owned();
        config.check().is_ok()
    };
    assert!(check("tenant 7/é"));
    assert!(["", "a}b", "{a", "a\n", &"x".repeat(65)].iter().all(|namespace| !check(namespace)));
}
