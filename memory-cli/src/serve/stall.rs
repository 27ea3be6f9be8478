//! Closes connections whose client has stalled.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};

/// A listener whose connections are closed when their client has read nothing for a given time while data was waiting.
#[derive(Debug)]
pub(crate) struct StallListener {
    pub(crate) listener: TcpListener,
    pub(crate) patience: Duration,
}

/// A connection that fails once its client has taken nothing for some time.
#[derive(Debug)]
pub(crate) struct StallStream {
    stream: TcpStream,
    patience: Duration,
    /// The deadline of the pending write; `None` if no write waits for the client.
    given_up: Option<Pin<Box<Sleep>>>,
}

impl Listener for StallListener {
    type Io = StallStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (StallStream, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (StallStream { stream, patience: self.patience, given_up: None }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl StallStream {
    fn or_given_up(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.given_up = None;
            return written;
        }
        let patience = self.patience;
        let given_up = self.given_up.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(given_up.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client no longer reads")))
    }
}

impl AsyncRead for StallStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for StallStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.or_given_up(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.or_given_up(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
