//! Encrypted connections to a server with real certificates.

use std::fs;

use conformance::server::postgres::LocalPostgres;
use memory_core::{Error, ErrorKind, MemoryProvider};
use memory_postgres::{Host, Password, PostgresConfig, TlsMode};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, Row};

use crate::common::{Case, SECRET, check, config, open, run};

/// The name in the certificate of the server; `127.0.0.1` is not in it.
const NAME: &str = "localhost";

pub(crate) fn modes() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut admin = PgConnection::connect(server.url()).await?;
        admin.execute(AssertSqlSafe(format!("ALTER ROLE postgres PASSWORD '{SECRET}'"))).await?;
        let mut config = config(server.url());
        config.server.password = Some(Password(SECRET.to_owned()));

        // Without certificates.
        assert!(!is_encrypted(&config, TlsMode::Disable, &mut admin).await?);
        assert!(!is_encrypted(&config, TlsMode::Prefer, &mut admin).await?);
        for mode in [TlsMode::Require, TlsMode::VerifyCa, TlsMode::VerifyFull] {
            refused(&config, mode).await;
        }

        let (authority, other) = (authority("ours")?, authority("another")?);
        let (certificate, key) = certificate(&authority, NAME)?;
        let file = |name: &str, content: &str| server.write(name, content);
        let (right, wrong) = (file("ca.pem", &authority.pem())?, file("other.pem", &other.pem())?);
        let (certificate, key) = (file("server.pem", &certificate)?, file("server.key", &key)?);
        for (setting, file) in [("ssl_cert_file", &certificate), ("ssl_key_file", &key), ("ssl_ca_file", &right)] {
            admin.execute(AssertSqlSafe(format!("ALTER SYSTEM SET {setting} = '{}'", file.display()))).await?;
        }
        admin.execute("ALTER SYSTEM SET ssl = on").await?;
        reload(&mut admin).await?;

        assert!(!is_encrypted(&config, TlsMode::Disable, &mut admin).await?);
        for mode in [TlsMode::Allow, TlsMode::Prefer, TlsMode::Require] {
            assert!(is_encrypted(&config, mode, &mut admin).await?);
        }
        // No public authority has signed it.
        for mode in [TlsMode::VerifyCa, TlsMode::VerifyFull] {
            refused(&config, mode).await;
        }
        config.server.tls.root_certificate = Some(wrong);
        for mode in [TlsMode::VerifyCa, TlsMode::VerifyFull] {
            refused(&config, mode).await;
        }
        config.server.tls.root_certificate = Some(right);
        assert!(is_encrypted(&config, TlsMode::VerifyCa, &mut admin).await?);
        refused(&config, TlsMode::VerifyFull).await;
        config.server.hosts = vec![Host { name: NAME.to_owned(), port: config.server.hosts[0].port }];
        assert!(is_encrypted(&config, TlsMode::VerifyFull, &mut admin).await?);

        // A role that must present a certificate of its own.
        admin.execute("CREATE ROLE robot LOGIN SUPERUSER").await?;
        let access = server.folder().join("data/pg_hba.conf");
        fs::write(&access, format!("hostssl all robot all cert\n{}", fs::read_to_string(&access)?))?;
        reload(&mut admin).await?;
        config.server.user = Some("robot".to_owned());
        let error = open(with(&config, TlsMode::VerifyFull)).await.expect_err("no certificate");
        check(&error, ErrorKind::Unauthorized, "refused the role or its password");
        let (certificate, key) = self::certificate(&authority, "robot")?;
        config.server.tls.certificate = Some(file("robot.pem", &certificate)?);
        config.server.tls.key = Some(file("robot.key", &key)?);
        assert!(is_encrypted(&config, TlsMode::VerifyFull, &mut admin).await?);
        Ok(())
    })
}

fn with(config: &PostgresConfig, mode: TlsMode) -> PostgresConfig {
    let mut config = config.clone();
    config.server.tls.mode = mode;
    config.application_name = "tls-case".to_owned();
    config
}

/// Whether all connections of a provider are encrypted, as the server sees them; all are the same.
async fn is_encrypted(config: &PostgresConfig, mode: TlsMode, admin: &mut PgConnection) -> Result<bool, Error> {
    let provider = open(with(config, mode)).await?;
    let sql = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'tls-case'";
    let rows = admin.fetch_all(sql).await.expect("an answer");
    let encrypted: Vec<bool> = rows.iter().map(|row| row.get(0)).collect();
    assert!(!encrypted.is_empty() && encrypted.iter().all(|each| *each == encrypted[0]), "{encrypted:?}");
    provider.shutdown().await?;
    Ok(encrypted[0])
}

async fn refused(config: &PostgresConfig, mode: TlsMode) {
    let error = open(with(config, mode)).await.expect_err("a refusal");
    check(&error, ErrorKind::Unavailable, "the encrypted connection could not be made");
}

async fn reload(admin: &mut PgConnection) -> Case {
    admin.execute("SELECT pg_reload_conf()").await?;
    Ok(())
}

fn authority(name: &str) -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

/// A certificate for a host or a role, and its key.
fn certificate(by: &CertifiedIssuer<'static, KeyPair>, name: &str) -> Result<(String, String), rcgen::Error> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, by)?.pem(), key.serialize_pem()))
}
