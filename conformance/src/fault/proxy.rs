//! A TCP proxy that delays, cuts or holds the traffic that goes through it.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use url::Url;

/// What a [`Proxy`] does to its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Passes everything on.
    None,
    /// Passes each chunk on after this time.
    Delay(Duration),
    /// Breaks the connection whose requests reach this place, once. Everything else passes.
    CutRequest(Place),
    /// Breaks the connection whose answers reach this place, once: the server has executed a request whose answer its client never gets.
    CutAnswer(Place),
    /// Does what [`Fault::CutAnswer`] does, and from then on what [`Fault::Refuse`] does.
    LastAnswer(Place),
    /// Passes nothing on and breaks nothing; held traffic goes on when another fault is set.
    Hold,
    /// Like [`Fault::Hold`], but answers pass.
    HoldRequests,
    /// Like [`Fault::Hold`], but requests pass: the server executes them, and no client gets an answer meanwhile.
    HoldAnswers,
    /// Breaks all connections, and closes new ones at once.
    Refuse,
}

/// Where a cut happens, counted over all connections from the call of [`Proxy::set`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// After this many bytes.
    Bytes(usize),
    /// After this many half chunks: an even number cuts between two chunks, an odd one in the middle of a chunk. A chunk is what one read
    /// returns: a request, an answer, or up to 16 KiB of one.
    Halves(usize),
}

/// A proxy in front of a server. Dropping it ends it and its connections.
pub struct Proxy {
    url: String,
    shared: Arc<Shared>,
    listener: AbortHandle,
}

struct Shared {
    target: String,
    fault: watch::Sender<Fault>,
    /// How many bytes, or half chunks, still pass before the cut.
    left: Mutex<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Answer,
}

impl Fault {
    fn holds(self, direction: Direction) -> bool {
        match self {
            Self::Hold => true,
            Self::HoldRequests => direction == Direction::Request,
            Self::HoldAnswers => direction == Direction::Answer,
            _ => false,
        }
    }
}

impl Proxy {
    /// Starts a proxy in front of the server of a URL, which must name one host, and the port unless it is the usual
    /// one.
    ///
    /// Must be called within a tokio runtime, which then serves the connections.
    pub async fn before(url: &str) -> io::Result<Self> {
        let mut url = Url::parse(url).map_err(io::Error::other)?;
        let (host, port) = (url.host_str().unwrap_or("127.0.0.1"), url.port().or_else(|| default_port(url.scheme())));
        let port = port.ok_or_else(|| io::Error::other("the URL of the server has no port"))?;
        let target = format!("{host}:{port}");
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let cannot = |_| io::Error::other("the port of the URL of the server can't be changed");
        url.set_host(Some("127.0.0.1")).map_err(io::Error::other)?;
        url.set_port(Some(listener.local_addr()?.port())).map_err(cannot)?;
        let shared = Arc::new(Shared { target, fault: watch::Sender::new(Fault::None), left: Mutex::default() });
        let listener = tokio::spawn(listen(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { url: url.into(), shared, listener })
    }

    /// The URL that reaches the server through the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sets the fault from now on. A cut that was set before and has not happened is cancelled.
    pub fn set(&self, fault: Fault) {
        if let Fault::CutRequest(place) | Fault::CutAnswer(place) | Fault::LastAnswer(place) = fault {
            let (Place::Bytes(left) | Place::Halves(left)) = place;
            *self.shared.left() = left;
        }
        self.shared.fault.send_replace(fault);
    }

    /// The fault that is set now: after a cut has happened, [`Fault::None`] or [`Fault::Refuse`].
    pub fn fault(&self) -> Fault {
        *self.shared.fault.borrow()
    }

    /// How far the last cut was from its place, in bytes or half chunks, when it happened, or is now if it has not happened.
    pub fn left(&self) -> usize {
        *self.shared.left()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl fmt::Debug for Proxy {
    /// Omits the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("target", &self.shared.target)
            .field("fault", &self.fault())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn left(&self) -> MutexGuard<'_, usize> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes of a chunk pass, and whether the connection breaks after them.
    fn passes(&self, direction: Direction, length: usize) -> (usize, bool) {
        let mut left = self.left();
        let (place, next) = match (*self.fault.borrow(), direction) {
            (Fault::CutRequest(place), Direction::Request) | (Fault::CutAnswer(place), Direction::Answer) => {
                (place, Fault::None)
            }
            (Fault::LastAnswer(place), Direction::Answer) => (place, Fault::Refuse),
            _ => return (length, false),
        };
        let takes = if let Place::Bytes(_) = place { length } else { 2 };
        if takes <= *left {
            *left -= takes;
            return (length, false);
        }
        let passes = if let Place::Bytes(_) = place { *left } else { *left * length / 2 };
        self.fault.send_replace(next);
        (passes, true)
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, which ends the connections.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(connect(client, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one connection until either side, or a fault, ends it.
async fn connect(client: TcpStream, shared: Arc<Shared>) {
    let mut fault = shared.fault.subscribe();
    if *fault.borrow() == Fault::Refuse {
        return;
    }
    // Without this, small packets wait for more data, and delays add up.
    let (Ok(server), Ok(())) = (TcpStream::connect(&shared.target).await, client.set_nodelay(true)) else { return };
    if server.set_nodelay(true).is_err() {
        return;
    }
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        _ = pump(from_client, to_server, Direction::Request, &shared) => {}
        _ = pump(from_server, to_client, Direction::Answer, &shared) => {}
        _ = fault.wait_for(|fault| *fault == Fault::Refuse) => {}
    }
}

/// Copies bytes in one direction until the connection ends.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: Direction,
    shared: &Shared,
) -> io::Result<()> {
    let mut fault = shared.fault.subscribe();
    let mut piece = vec![0; 16 << 10];
    loop {
        let length = from.read(&mut piece).await?;
        if length == 0 {
            return Ok(());
        }
        // Fails only when the proxy is gone.
        let now = *fault.wait_for(|fault| !fault.holds(direction)).await.map_err(io::Error::other)?;
        match now {
            Fault::Delay(time) => tokio::time::sleep(time).await,
            // The task of the connection may not have seen it yet.
            Fault::Refuse => return Ok(()),
            _ => {}
        }
        let (passes, is_cut) = shared.passes(direction, length);
        to.write_all(&piece[..passes]).await?;
        if is_cut {
            return Ok(());
        }
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "postgres" | "postgresql" => Some(5432),
        "redis" => Some(6379),
        "mongodb" => Some(27017),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A proxy in front of an echo server, and a connection through it.
    async fn echo() -> io::Result<(Proxy, TcpStream)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("echo://user:secret@{}/path?a=b", listener.local_addr()?);
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = connection.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        let proxy = Proxy::before(&url).await?;
        let connection = connect_to(&proxy).await?;
        Ok((proxy, connection))
    }

    async fn connect_to(proxy: &Proxy) -> io::Result<TcpStream> {
        let address = proxy.url().split(['@', '/']).nth(3).expect("an address").to_owned();
        TcpStream::connect(address).await
    }

    async fn says(connection: &mut TcpStream, text: &str) -> io::Result<String> {
        connection.write_all(text.as_bytes()).await?;
        let mut answer = vec![0; text.len()];
        connection.read_exact(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    #[tokio::test]
    async fn what_goes_through_comes_back_late_or_not() -> io::Result<()> {
        let (proxy, mut connection) = echo().await?;
        assert!(proxy.url().starts_with("echo://user:secret@127.0.0.1:") && proxy.url().ends_with("/path?a=b"));
        assert!(!format!("{proxy:?}").contains("secret"));
        assert_eq!(says(&mut connection, "hello").await?, "hello");
        proxy.set(Fault::Delay(Duration::from_millis(1)));
        assert_eq!(says(&mut connection, "slowly").await?, "slowly");
        Ok(())
    }

    #[tokio::test]
    async fn what_is_held_goes_on() -> io::Result<()> {
        for fault in [Fault::Hold, Fault::HoldRequests, Fault::HoldAnswers] {
            let (proxy, mut connection) = echo().await?;
            proxy.set(fault);
            connection.write_all(b"held").await?;
            let mut answer = [0; 4];
            let read = tokio::time::timeout(Duration::from_millis(50), connection.read_exact(&mut answer)).await;
            assert!(read.is_err(), "nothing comes back through {fault:?}");
            proxy.set(Fault::None);
            connection.read_exact(&mut answer).await?;
            assert_eq!(&answer, b"held");
        }
        Ok(())
    }

    #[tokio::test]
    async fn one_direction_is_held_and_the_other_is_not() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let proxy = Proxy::before(&format!("held://{}", listener.local_addr()?)).await?;
        let mut client = TcpStream::connect(proxy.url().trim_start_matches("held://")).await?;
        let (mut server, _) = listener.accept().await?;
        let mut bytes = [0; 4];
        proxy.set(Fault::HoldAnswers);
        server.write_all(b"back").await?;
        client.write_all(b"sent").await?;
        server.read_exact(&mut bytes).await?;
        assert_eq!(&bytes, b"sent");
        proxy.set(Fault::HoldRequests);
        client.write_all(b"more").await?;
        client.read_exact(&mut bytes).await?;
        assert_eq!(&bytes, b"back");
        proxy.set(Fault::None);
        server.read_exact(&mut bytes).await?;
        assert_eq!(&bytes, b"more");
        Ok(())
    }

    #[tokio::test]
    async fn a_cut_comes_once_and_in_the_middle() -> io::Result<()> {
        let places = [Place::Bytes(7), Place::Halves(3)];
        for (fault, is_request) in
            places.into_iter().flat_map(|place| [(Fault::CutRequest(place), true), (Fault::CutAnswer(place), false)])
        {
            let (proxy, mut connection) = echo().await?;
            proxy.set(fault);
            assert_eq!(says(&mut connection, "hello").await?, "hello");
            connection.write_all(b"world").await?;
            let mut rest = Vec::new();
            // The server is given two bytes more, or gives two.
            let ended = connection.read_to_end(&mut rest).await;
            assert!(is_request || ended.is_err() || rest == b"wo", "{rest:?}");
            assert_eq!(proxy.fault(), Fault::None);
            assert_eq!(says(&mut connect_to(&proxy).await?, "again").await?, "again");
        }
        Ok(())
    }

    #[tokio::test]
    async fn behind_the_last_answer_nobody_is_let_in() -> io::Result<()> {
        let (proxy, mut connection) = echo().await?;
        proxy.set(Fault::LastAnswer(Place::Bytes(7)));
        assert_eq!(says(&mut connection, "hello").await?, "hello");
        assert!(says(&mut connection, "world").await.is_err());
        assert_eq!(proxy.fault(), Fault::Refuse);
        let refused = async { says(&mut connect_to(&proxy).await?, "refused").await };
        assert!(refused.await.is_err());
        Ok(())
    }

    #[tokio::test]
    async fn who_is_refused_is_let_in_later() -> io::Result<()> {
        let (proxy, mut connection) = echo().await?;
        assert_eq!(says(&mut connection, "hello").await?, "hello");
        proxy.set(Fault::Refuse);
        assert!(says(&mut connection, "broken").await.is_err());
        let refused = async { says(&mut connect_to(&proxy).await?, "refused").await };
        assert!(refused.await.is_err());
        proxy.set(Fault::None);
        assert_eq!(says(&mut connect_to(&proxy).await?, "again").await?, "again");
        Ok(())
    }
}
