//! The server as programs of others see it: the official MCP SDK, and a fuzzer that reads its OpenAPI document.

use std::path::Path;
use std::process::Command;

use common::python::{file, interpreter, run};
use common::server::Server;
use common::{Cli, TOKENS};

mod common;

#[test]
fn the_official_sdk_uses_every_tool_over_stdio() {
    let cli = Cli::new();
    let mut command = Command::new(interpreter());
    command.arg(file("mcp_client.py")).args(["stdio", env!("CARGO_BIN_EXE_agent-memory")]).arg(cli.path("memory.db"));
    assert_eq!(run(&mut command), "ok\n");
}

#[test]
fn the_official_sdk_uses_every_tool_over_http() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let mut command = Command::new(interpreter());
    command.arg(file("mcp_client.py")).args(["http", &format!("http://{}/mcp", server.address)]);
    command.args(["runtime-0123456789abcdef", "model-0123456789abcdef"]);
    assert_eq!(run(&mut command), "ok\n");
}

#[test]
fn the_first_call_that_the_guide_shows_finds_what_it_saves() {
    let chapter = include_str!("../../docs/src/mcp.md");
    let script = chapter.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```")).expect("an example").0;
    let (cli, binary) = (Cli::new(), Path::new(env!("CARGO_BIN_EXE_agent-memory")));
    let mut command = Command::new(interpreter());
    command.args(["-c", script]).env("PATH", binary.parent().expect("a folder")).current_dir(cli.path(""));
    let found = run(command.env_remove("AGENT_MEMORY_URL"));
    assert!(found.contains(r#""content":"Ana has a cat""#), "{found}");
}

#[test]
fn a_fuzzer_finds_that_the_server_does_what_its_description_says() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let mut command = Command::new(interpreter());
    command.args(["-c", "from schemathesis.cli import schemathesis; schemathesis()", "--no-color", "--config-file"]);
    command.arg(file("schemathesis.toml")).args(["run", "--seed", "20260101", "--max-examples", "20"]);
    command.args(["--header", "Authorization: Bearer runtime-0123456789abcdef"]);
    command.arg(format!("http://{}/v1/openapi.json", server.address)).current_dir(cli.path(""));
    let report = run(&mut command);
    assert!(report.contains("Tested: 28"), "{report}");
}
