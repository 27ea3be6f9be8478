//! Writes lines to standard output on a thread of its own.

use std::fs::File;
use std::io::{self, Write};
use std::thread;

use tokio::sync::mpsc::{self, Sender};
use tokio::sync::{oneshot, watch};

use crate::output::OutputFailed;

/// Writes each line at once, on its own thread, so that a reader that stalls does not keep the program from ending.
#[derive(Debug)]
pub(crate) struct LineWriter {
    given: Sender<Given>,
    written: watch::Receiver<Option<String>>,
    ended: oneshot::Receiver<io::Result<()>>,
}

/// A line to write, if any, and the mark that counts as reached after it.
#[derive(Debug)]
struct Given {
    line: Option<String>,
    mark: String,
}

impl LineWriter {
    /// Starts a writer, which runs until it is finished or standard output can't be written.
    pub(crate) fn new() -> io::Result<Self> {
        // Not the shared handle of the process, whose lock would be held while the reader stalls.
        let out = standard_output()?;
        let (given, receiver) = mpsc::channel(1);
        let (marks, written) = watch::channel(None);
        let (end, ended) = oneshot::channel();
        // Fails if nobody waits for the end.
        let write = move || drop(end.send(write_all(out, receiver, &marks)));
        thread::Builder::new().spawn(write)?;
        Ok(Self { given, written, ended })
    }

    /// Queues a line, or none, with a mark. Returns whether the writer still runs.
    pub(crate) async fn write(&self, line: Option<String>, mark: String) -> bool {
        self.given.send(Given { line, mark }).await.is_ok()
    }

    /// A receiver of the mark of the last written line.
    pub(crate) fn written(&self) -> watch::Receiver<Option<String>> {
        self.written.clone()
    }

    /// Waits until all queued lines are written, or returns the error.
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

/// Completes when the reader of a pipe on standard output is gone, which otherwise shows only at the next write.
#[cfg(target_os = "linux")]
pub(crate) async fn reader_left() {
    use std::os::unix::fs::FileTypeExt as _;
    use tokio::io::Interest;
    use tokio::net::unix::pipe::OpenOptions;

    const PATH: &str = "/dev/stdout";
    /// ENXIO: nobody reads the pipe. It is also the error for a socket, which can't be opened.
    const NO_READER: i32 = 6;
    // A separate handle, since waiting makes it non-blocking, and others may share the original.
    let has_left = match OpenOptions::new().open_sender(PATH) {
        Ok(pipe) => pipe.ready(Interest::ERROR).await.is_ok(),
        Err(error) if error.raw_os_error() == Some(NO_READER) => {
            std::fs::metadata(PATH).is_ok_and(|file| file.file_type().is_fifo())
        }
        // A file or a terminal has no reader that can leave.
        Err(_) => false,
    };
    if !has_left {
        std::future::pending::<()>().await;
    }
}

/// Never completes: on this system it shows only at the next write.
#[cfg(not(target_os = "linux"))]
pub(crate) async fn reader_left() {
    std::future::pending::<()>().await;
}
