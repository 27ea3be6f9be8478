//! The `agent-memory` command: store, recall, import and export what an agent remembers.

use std::process::ExitCode;

fn main() -> ExitCode {
    memory_cli::main()
}
