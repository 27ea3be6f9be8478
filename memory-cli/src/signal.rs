//! Signals that ask the process to end.

/// Returns a future that completes when a signal asks the process to end. From this call on, these signals no longer end the process by
/// themselves.
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
