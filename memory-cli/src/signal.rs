//! Signals that ask the process to end.

/// Ends when the process is asked to. Signals are heard from this call on, and do not end the process by themselves any more.
pub(crate) fn asked_to_end() -> anyhow::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    let (mut interrupt, mut terminate) = {
        use tokio::signal::unix::{SignalKind, signal};
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    #[cfg(windows)]
    let (mut interrupt, mut terminate) = (tokio::signal::windows::ctrl_c()?, tokio::signal::windows::ctrl_break()?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
