//! Lines on standard output that are written while the next ones are waited for.

use std::fs::File;
use std::io::{self, Write};
use std::thread;

use tokio::sync::mpsc::{self, Sender};
use tokio::sync::{oneshot, watch};

use crate::output::OutputFailed;

/// Writes each line at once, on a thread of its own, so that a reader who takes nothing does not keep the program from ending.
#[derive(Debug)]
pub(crate) struct LineWriter {
    given: Sender<Given>,
    written: watch::Receiver<Option<String>>,
    ended: oneshot::Receiver<io::Result<()>>,
}

/// What is written, if anything is, and what is known when it was.
#[derive(Debug)]
struct Given {
    line: Option<String>,
    mark: String,
}

impl LineWriter {
    /// Writes until it is finished, or standard output can't be written.
    pub(crate) fn new() -> io::Result<Self> {
        // Not the handle that the process shares, whose lock would be held while the reader takes nothing.
        let out = standard_output()?;
        let (given, receiver) = mpsc::channel(1);
        let (marks, written) = watch::channel(None);
        let (end, ended) = oneshot::channel();
        // Nobody may be there to learn how it has ended.
        let write = move || drop(end.send(write_all(out, receiver, &marks)));
        thread::Builder::new().spawn(write)?;
        Ok(Self { given, written, ended })
    }

    /// Has a line written behind those that were given before, or none, and keeps the mark. Whether the writer still goes on.
    pub(crate) async fn write(&self, line: Option<String>, mark: String) -> bool {
        self.given.send(Given { line, mark }).await.is_ok()
    }

    /// The mark of the last line that was written.
    pub(crate) fn written(&self) -> watch::Receiver<Option<String>> {
        self.written.clone()
    }

    /// Waits until all that was given is written, and tells why not.
    pub(crate) async fn finish(self) -> Result<(), OutputFailed> {
        drop(self.given);
        self.ended.await.unwrap_or(Ok(())).map_err(OutputFailed::new)
    }
}

fn write_all(mut out: File, mut given: mpsc::Receiver<Given>, marks: &watch::Sender<Option<String>>) -> io::Result<()> {
    while let Some(Given { line, mark }) = given.blocking_recv() {
        if let Some(mut line) = line {
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
        marks.send_replace(Some(mark));
    }
    Ok(())
}

#[cfg(unix)]
fn standard_output() -> io::Result<File> {
    use std::os::fd::AsFd as _;
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

#[cfg(windows)]
fn standard_output() -> io::Result<File> {
    use std::os::windows::io::AsHandle as _;
    Ok(io::stdout().as_handle().try_clone_to_owned()?.into())
}

/// Ends when whoever reads standard output by a pipe is gone, which else shows only when something is written.
#[cfg(target_os = "linux")]
pub(crate) async fn reader_left() {
    use std::os::unix::fs::FileTypeExt as _;
    use tokio::io::Interest;
    use tokio::net::unix::pipe::OpenOptions;

    const PATH: &str = "/dev/stdout";
    /// ENXIO: nobody reads the pipe. A socket can't be opened either.
    const NO_READER: i32 = 6;
    // A handle of its own, since one that is waited for does not block, and others may share this one.
    let has_left = match OpenOptions::new().open_sender(PATH) {
        Ok(pipe) => pipe.ready(Interest::ERROR).await.is_ok(),
        Err(error) if error.raw_os_error() == Some(NO_READER) => {
            std::fs::metadata(PATH).is_ok_and(|file| file.file_type().is_fifo())
        }
        // A file or a terminal has no reader to wait for.
        Err(_) => false,
    };
    if !has_left {
        std::future::pending::<()>().await;
    }
}

/// Never ends: here it shows only when something is written.
#[cfg(not(target_os = "linux"))]
pub(crate) async fn reader_left() {
    std::future::pending::<()>().await;
}
