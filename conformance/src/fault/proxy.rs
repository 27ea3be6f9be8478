//! A proxy that delays, cuts and holds up what goes through it.

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

/// What happens to the connections through a [`Proxy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Whatever arrives in one piece goes on after this time.
    Delay(Duration),
    /// Once: the connection on which the requests reach this place breaks there. The rest works.
    CutRequest(Place),
    /// The same for answers: the server has done what its client never hears of.
    CutAnswer(Place),
    /// As [`Fault::CutAnswer`], and from then on as [`Fault::Refuse`].
    LastAnswer(Place),
    /// Nothing goes through, and nothing breaks; what was held goes on afterwards.
    Hold,
    /// As [`Fault::Hold`], and answers go through.
    HoldRequests,
    /// As [`Fault::Hold`], and requests go through: what they do is done, and nobody hears of it meanwhile.
    HoldAnswers,
    /// All connections break, and new ones are closed at once.
    Refuse,
}

/// Where a cut comes: counted over all connections, from when it was ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Behind this many bytes.
    Bytes(usize),
    /// Behind this many halves of pieces, of which 0, 2 and so on lie between two pieces. A piece is what arrives at once: a request, an
    /// answer, or 16 KiB of one.
    Halves(usize),
}

/// A proxy in front of a server. Ended, with its connections, when dropped.
pub struct Proxy {
    url: String,
    shared: Arc<Shared>,
    listener: AbortHandle,
}

struct Shared {
    target: String,
    fault: watch::Sender<Fault>,
    /// How many bytes, or halves of pieces, are left until a cut.
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
    /// Starts a proxy before the server of a URL, which names one host and its port.
    ///
    /// Must be called within a tokio runtime, which then serves the connections.
    pub async fn before(url: &str) -> io::Result<Self> {
        let mut url = Url::parse(url).map_err(io::Error::other)?;
        let (host, port) = (url.host_str().unwrap_or("127.0.0.1"), url.port().or_else(|| default_port(url.scheme())));
        let port = port.ok_or_else(|| io::Error::other("the URL of the server has no port"))?;
        let target = format!("{host}:{port}");
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let cannot = |_| io::Error::other("the URL of the server takes no other host");
        url.set_host(Some("127.0.0.1")).map_err(io::Error::other)?;
        url.set_port(Some(listener.local_addr()?.port())).map_err(cannot)?;
        let shared = Arc::new(Shared { target, fault: watch::Sender::new(Fault::None), left: Mutex::default() });
        let listener = tokio::spawn(listen(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { url: url.into(), shared, listener })
    }

    /// The URL of the server through the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What happens from now on. A cut that was ordered and did not come yet is forgotten.
    pub fn set(&self, fault: Fault) {
        if let Fault::CutRequest(place) | Fault::CutAnswer(place) | Fault::LastAnswer(place) = fault {
            let (Place::Bytes(left) | Place::Halves(left)) = place;
            *self.shared.left() = left;
        }
        self.shared.fault.send_replace(fault);
    }

    /// What happens now: [`Fault::None`] after a cut has come, or [`Fault::Refuse`].
    pub fn fault(&self) -> Fault {
        *self.shared.fault.borrow()
    }

    /// How far the last cut that was ordered is from its place, or was when it came: in bytes, or in halves of pieces.
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
    /// Without the URL, which may hold a password.
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

    /// How much of a piece goes on, and whether its connection breaks behind it.
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
    // Dropped with this task, and the connections with it.
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
    // What is small must not wait for more, or delays add up.
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

/// Carries bytes in one direction until the connection breaks.
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
        // Ends with an error only when the proxy is gone.
        let now = *fault.wait_for(|fault| !fault.holds(direction)).await.map_err(io::Error::other)?;
        if let Fault::Delay(time) = now {
            tokio::time::sleep(time).await;
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

    /// A proxy before a server that gives back what it gets, and a connection through it.
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
