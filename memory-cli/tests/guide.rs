//! The commands of the root README and of the guide, run as they are, chapter by chapter and in their order.
//!
//! A line `agent-memory serve …` starts a server, whose address replaces `localhost:7700`. A line that begins with `# `
//! must be in the output of its block, with anything for each `…`. A block marked `no_run` needs something that a test
//! does not have, such as a language model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::Cli;
use common::python::run;
use common::server::Server;

mod common;

#[test]
fn the_commands_of_the_readme_print_what_it_shows() {
    assert_eq!(play(&root().join("README.md")), 2, "the server, and two calls");
}

#[test]
fn the_commands_of_the_guide_print_what_it_shows() {
    let chapters = fs::read_dir(root().join("docs/src")).expect("the guide");
    let played: usize = chapters.map(|chapter| play(&chapter.expect("a chapter").path())).sum();
    assert!(played >= 25, "{played} blocks: fewer than there were");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs the blocks of a file in a folder of their own, and returns their number.
fn play(file: &Path) -> usize {
    let text = fs::read_to_string(file).expect("a text");
    let cli = Cli::new();
    let mut server: Option<Server> = None;
    let blocks = blocks(&text);
    for block in &blocks {
        let mut script = String::new();
        let mut shown = Vec::new();
        for line in block.lines() {
            if let Some(arguments) = line.strip_prefix("agent-memory serve") {
                server = Some(Server::start_as(cli.bare(), &arguments.split_whitespace().collect::<Vec<_>>()));
            } else if let Some(output) = line.strip_prefix("# ") {
                shown.push(output);
            } else {
                script.extend([line, "\n"]);
            }
        }
        if let Some(server) = &server {
            script = script.replace("localhost:7700", &server.address).replace("127.0.0.1:7700", &server.address);
        }
        let output = run(&mut shell(&cli, &script));
        assert!(prints(&output, &shown), "{}: {shown:#?} is not in\n{output}", file.display());
    }
    blocks.len()
}

/// The blocks of commands that are run, without their indentation.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "```sh" {
            let indentation = line.len() - line.trim_start().len();
            let block = lines.by_ref().take_while(|line| line.trim() != "```");
            blocks.push(block.map(|line| format!("{}\n", line.get(indentation..).unwrap_or_default())).collect());
        }
    }
    blocks
}

/// A shell in the folder, which finds the program by its name and ends with the first command that fails.
fn shell(cli: &Cli, script: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_agent-memory")).parent().expect("a folder");
    let path = std::env::var("PATH").expect("a path");
    let mut command = Command::new("bash");
    command.args(["-euc", script]).current_dir(cli.path("")).env_remove("AGENT_MEMORY_URL");
    command.env("PATH", format!("{}:{path}", program.display()));
    command
}

/// Whether the output has these lines in this order.
fn prints(output: &str, shown: &[&str]) -> bool {
    let mut rest = output;
    shown.iter().flat_map(|line| line.split('…')).all(|part| match rest.split_once(part) {
        Some((_, behind)) => {
            rest = behind;
            true
        }
        None => false,
    })
}
