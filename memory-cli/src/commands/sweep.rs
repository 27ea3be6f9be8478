//! `sweep`: erases expired records.

use std::pin::pin;
use std::process::ExitCode;

use futures::FutureExt as _;
use memory_core::{MemoryProvider, Sweep};
use serde_json::json;

use super::exit_code;
use crate::output::{self, Output};
use crate::signal;

/// The progress of a round.
#[derive(Debug, Default)]
struct Done {
    records: u64,
    tombstones: u64,
    is_complete: bool,
}

/// Sweeps slice by slice, until nothing is left or a signal comes.
pub(crate) async fn run(provider: &dyn MemoryProvider, output: &mut Output) -> anyhow::Result<ExitCode> {
    // From here on, a signal ends the sweep only between two slices.
    let asked = signal::asked_to_end()?;
    let mut done = Done::default();
    let ended = sweep(provider, asked, &mut done).await;
    let Done { records, tombstones, is_complete } = done;
    // The result before a failure is reported as well.
    if ended.is_ok() || records > 0 || tombstones > 0 {
        output.value(
            &json!({ "records": records, "tombstones": tombstones, "isComplete": is_complete }),
            format!("erased {records} expired records, and removed {tombstones} tombstones"),
        )?;
        output.flush()?;
    }
    ended?;
    if !is_complete {
        output::note("error: it was stopped, and more may be left: repeat the command to continue");
    }
    Ok(exit_code(!is_complete))
}

/// Sweeps slice by slice. A signal is checked between two slices; each slice is atomic.
async fn sweep(
    provider: &dyn MemoryProvider,
    asked: impl Future<Output = ()>,
    done: &mut Done,
) -> memory_core::Result<()> {
    let mut asked = pin!(asked);
    let mut next = Some(Sweep::all());
    while let Some(sweep) = next {
        if asked.as_mut().now_or_never().is_some() {
            return Ok(());
        }
        let swept = provider.sweep(&sweep).await?;
        done.records += swept.records.len() as u64;
        done.tombstones += swept.tombstones as u64;
        next = swept.next;
    }
    done.is_complete = true;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use memory_core::InMemory;

    use super::*;

    #[tokio::test]
    async fn it_ends_between_two_slices_when_it_is_asked_to() -> memory_core::Result<()> {
        let provider = InMemory::new();
        provider.init().await?;
        let mut done = Done::default();
        sweep(&provider, ready(()), &mut done).await?;
        assert!(!done.is_complete);
        sweep(&provider, pending(), &mut done).await?;
        assert!(done.is_complete);
        Ok(())
    }
}
