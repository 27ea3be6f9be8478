//! The suite on the in-memory engine.

use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    conformance::run(vec![Arc::new(conformance::Reference::default())])
}
