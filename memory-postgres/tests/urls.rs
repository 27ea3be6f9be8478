//! What URLs may contain, and what is refused.

use memory_postgres::{Host, Password, PostgresConfig};

#[test]
fn credentials_are_decoded_and_never_shown() {
    let url = "postgresql://us%40er:p%3A%2Fxyzzy@h/d%20b?read_url=postgres%3A%2F%2Fu%3Axyzzy%40r";
    let config = PostgresConfig::from_url(url).expect("valid");
    assert_eq!(config.server.hosts, [Host { name: "h".to_owned(), port: 5432 }]);
    assert_eq!(config.server.user.as_deref(), Some("us@er"));
    assert_eq!(config.server.password, Some(Password("p:/xyzzy".to_owned())));
    assert_eq!(config.server.database.as_deref(), Some("d b"));
    assert_eq!(config.read_server.as_ref().map(|server| server.hosts[0].name.as_str()), Some("r"));
    assert!(!format!("{config:?}").contains("xyzzy"));
}

#[test]
fn unknown_parameters_are_refused_by_name() {
    for (url, named) in [
        ("postgres://h/d?options=-c", "options"),
        ("postgres://h/d?password=xyzzy", "password"),
        ("postgres://h/d?pool_size=0", "pool_size"),
        ("postgres://h/d?kept_changes=99999", "kept_changes"),
        ("postgres://h/d?sslmode=yes", "sslmode"),
        ("postgres://h/d?pooler=session", "pooler"),
        ("postgres://h/d?target_session_attrs=any", "target_session_attrs"),
        ("postgres://h/d?read_url=postgres://r/d?namespace=xyzzy", "namespace"),
        ("postgres://u:xyzzy@h:port/d", "port"),
        ("mysql://u:xyzzy@h", "postgres://"),
    ] {
        let error = PostgresConfig::from_url(url).expect_err(url);
        assert!(error.message().contains(named), "{error}");
        assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
    }
}
