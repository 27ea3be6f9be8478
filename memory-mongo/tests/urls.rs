//! What URLs may contain, and what is refused.

use memory_mongo::MongoConfig;

#[test]
fn urls_name_servers_and_a_namespace() {
    for (url, hosts, namespace) in [
        ("mongodb://db", "db", "agent_memory"),
        ("mongodb://db:99/", "99", "agent_memory"),
        ("mongodb://db?language=german", "db", "agent_memory"),
        ("mongodb://a:1,b/agents?replicaSet=rs0&retryWrites=true&w=majority&journal=true", "a,b", "agents"),
        ("mongodb://db?retryWrites=false", "db", "agent_memory"),
        ("mongodb+srv://cluster.example.com/agents", "cluster.example.com", "agents"),
    ] {
        let config = MongoConfig::from_url(url).expect(url);
        let shown = format!("{:?}", config.server);
        assert!(hosts.split(',').all(|host| shown.contains(host)), "{shown}");
        assert_eq!(config.namespace, namespace);
    }
}

#[test]
fn unknown_and_weakening_parameters_are_refused_by_name() {
    for (url, named) in [
        ("mongodb://h/d?namespace=xyzzy", "namespace"),
        ("mongodb://h/d?w=1", "w"),
        ("mongodb://h/d?journal=false", "journal"),
        ("mongodb://h/d?wTimeoutMS=1", "wTimeoutMS"),
        ("mongodb://h/d?readConcernLevel=local", "readConcernLevel"),
        ("mongodb://h/d?deadline_ms=soon", "deadline_ms"),
        ("mongodb://h/d?language=some", "language"),
        ("mongodb://h/d?text_index=all", "text_index"),
        ("mongodb://h/d?maxPoolSize=xyzzy", "maxPoolSize"),
        ("mongodb://h/admin", "authSource"),
        ("mongodb://u:xyzzy@h:port/d", "hosts"),
        ("mongodb://u:xyzzy?a@h/d", "percent-encoded"),
        ("mongodb://u:1/xyzzy@h/d", "percent-encoded"),
        ("postgres://u:xyzzy@h", "mongodb://"),
    ] {
        let error = MongoConfig::from_url(url).expect_err(url);
        assert!(error.message().contains(named), "{url}: {error}");
        assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
    }
}

#[test]
fn passwords_show_nowhere() {
    let config = MongoConfig::from_url("mongodb://user:xyz%3Azy@h/d?authSource=admin&tls=true").expect("valid");
    let shown = format!("{config:?}");
    assert!(!shown.contains("zy") && !shown.contains("user"), "{shown}");
}
