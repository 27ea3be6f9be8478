//! Runs a command with a server of each engine. The servers are found or started as for the tests, and end after the command:
//!
//! ```sh
//! cargo run -p agent-memory-conformance --example servers -- \
//!     sh -c 'agent-memory conformance --url memory: --url "$MEMORY_TEST_POSTGRES_URL"'
//! ```
//!
//! The command finds their URLs in `MEMORY_TEST_POSTGRES_URL`, `MEMORY_TEST_REDIS_URL` and `MEMORY_TEST_MONGO_URL`. Several test programs
//! that are run in this way share the servers, instead of starting their own.

#[cfg(unix)]
fn main() -> Result<std::process::ExitCode, Box<dyn std::error::Error>> {
    use conformance::server::TestServer;

    let mut arguments = std::env::args_os().skip(1);
    let program = arguments.next().ok_or("a command to run is missing")?;
    let (postgres, redis, mongo) = (TestServer::postgres()?, TestServer::redis()?, TestServer::mongo()?);
    let status = std::process::Command::new(program)
        .args(arguments)
        .env("MEMORY_TEST_POSTGRES_URL", postgres.url())
        .env("MEMORY_TEST_REDIS_URL", redis.url())
        .env("MEMORY_TEST_MONGO_URL", mongo.url())
        .status()?;
    Ok(if status.success() { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE })
}

#[cfg(not(unix))]
fn main() {
    eprintln!("servers are started on Unix only");
}
