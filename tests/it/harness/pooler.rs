//! A pooler of transactions before Postgres, which gives no transaction the connection of the one before it. What
//! PgBouncer does now and then it does always; and it can be told what becomes of a commit.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of a `COMMIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commits {
    /// It is passed on, and so is its answer.
    Pass,
    /// It waits until they pass again.
    Wait,
    /// The connection ends before it is passed on.
    Vanish,
    /// It is passed on, and the connection ends before its answer.
    Unanswered,
    /// The same, with a word of the pooler's own, which says nothing of the commit.
    Disowned,
}

#[derive(Clone)]
pub(crate) struct Pooler {
    pub(crate) address: SocketAddr,
    commits: Arc<watch::Sender<Commits>>,
    /// Where transactions that begin from now on run, and how often that was said.
    target: Arc<Mutex<(SocketAddr, u64)>>,
    /// How many commits have come.
    seen: Arc<watch::Sender<u64>>,
    /// Of clients that began in the same way: whose turn is the furthest away comes last.
    spares: Arc<Mutex<HashMap<Vec<u8>, VecDeque<Spare>>>>,
}

/// A message of the protocol: its kind, and all of its bytes.
type Message = (u8, Vec<u8>);

/// A connection with a server, on which nothing is under way.
struct Spare {
    to: (SocketAddr, u64),
    stream: TcpStream,
}

impl Pooler {
    pub(crate) async fn before(target: SocketAddr) -> Pooler {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pooler = Pooler {
            address: listener.local_addr().unwrap(),
            commits: Arc::new(watch::Sender::new(Commits::Pass)),
            target: Arc::new(Mutex::new((target, 0))),
            seen: Arc::default(),
            spares: Arc::default(),
        };
        let all = pooler.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let pooler = all.clone();
                // It ends with either end of the connection.
                tokio::spawn(async move { pooler.serve(client).await });
            }
        });
        pooler
    }

    /// The URL of a database behind it, by that of the database itself.
    pub(crate) fn url(&self, port: u16, url: &str) -> String {
        url.replace(&format!(":{port}/"), &format!(":{}/", self.address.port()))
    }

    /// What becomes of commits from now on.
    pub(crate) fn commits(&self, what: Commits) {
        self.commits.send_replace(what);
    }

    /// Transactions that begin from now on run on this server, on new connections.
    pub(crate) fn goes_over_to(&self, server: SocketAddr) {
        let mut target = self.target.lock().unwrap();
        *target = (server, target.1 + 1);
    }

    /// Waits until a commit has come since `before`; how many have come.
    pub(crate) async fn commit_since(&self, before: u64) -> u64 {
        let mut seen = self.seen.subscribe();
        let come = tokio::time::timeout(Duration::from_secs(10), seen.wait_for(|seen| *seen > before));
        *come.await.expect("a commit comes").unwrap()
    }

    /// How many commits have come.
    pub(crate) fn commits_seen(&self) -> u64 {
        *self.seen.borrow()
    }

    async fn serve(self, mut client: TcpStream) -> Option<()> {
        let startup = startup(&mut client).await?;
        let (first, greeting) = self.connect(&startup).await?;
        client.write_all(&greeting).await.ok()?;
        self.put_back(&startup, first);
        loop {
            let mut message = message(&mut client).await?;
            let mut server = match self.take(&startup) {
                Some(server) => server,
                None => self.connect(&startup).await?.0,
            };
            // One transaction, or one round of messages outside of any.
            while self.round(&mut client, &mut server.stream, message).await? != b'I' {
                message = self::message(&mut client).await?;
            }
            self.put_back(&startup, server);
        }
    }

    fn put_back(&self, startup: &[u8], spare: Spare) {
        self.spares.lock().unwrap().entry(startup.to_vec()).or_default().push_back(spare);
    }

    /// The one that was used the longest ago, if it is not the last one.
    fn take(&self, startup: &[u8]) -> Option<Spare> {
        let target = *self.target.lock().unwrap();
        let mut all = self.spares.lock().unwrap();
        let spares = all.get_mut(startup)?;
        spares.retain(|spare| spare.to == target);
        if spares.len() > 1 { spares.pop_front() } else { None }
    }

    /// Passes messages on until the server is ready again; how the transaction stands then.
    async fn round(
        &self,
        client: &mut TcpStream,
        server: &mut TcpStream,
        mut message: Message,
    ) -> Option<u8> {
        let is_commit = message.0 == b'Q' && message.1[5..].starts_with(b"COMMIT");
        let mut what = Commits::Pass;
        if is_commit {
            let mut commits = self.commits.subscribe();
            what = *commits.borrow();
            self.seen.send_modify(|seen| *seen += 1);
            if what == Commits::Wait {
                what = *commits.wait_for(|what| *what != Commits::Wait).await.ok()?;
            }
        }
        if what == Commits::Vanish {
            return None;
        }
        loop {
            server.write_all(&message.1).await.ok()?;
            if matches!(message.0, b'Q' | b'S') {
                break;
            }
            message = self::message(client).await?;
        }
        loop {
            let (kind, bytes) = self::message(server).await?;
            if matches!(what, Commits::Unanswered | Commits::Disowned) {
                // Only where it has ended is it known to be applied.
                if kind != b'Z' {
                    continue;
                }
                if what == Commits::Disowned {
                    client.write_all(&farewell()).await.ok()?;
                }
                return None;
            }
            client.write_all(&bytes).await.ok()?;
            if kind == b'Z' {
                return bytes.last().copied();
            }
        }
    }

    /// A connection with the server of now, and what that one says at its begin.
    async fn connect(&self, startup: &[u8]) -> Option<(Spare, Vec<u8>)> {
        let to = *self.target.lock().unwrap();
        let mut stream = TcpStream::connect(to.0).await.ok()?;
        let _set = stream.set_nodelay(true);
        stream.write_all(startup).await.ok()?;
        let mut greeting = Vec::new();
        loop {
            let (kind, bytes) = message(&mut stream).await?;
            greeting.extend(bytes);
            if kind == b'Z' {
                return Some((Spare { to, stream }, greeting));
            }
        }
    }
}

/// The error with which a pooler ends a connection.
fn farewell() -> Vec<u8> {
    let text = b"SFATAL\0VFATAL\0C58000\0Mthe pooler is in trouble\0\0";
    let length = u32::try_from(text.len() + 4).unwrap().to_be_bytes();
    [b"E", &length[..], text].concat()
}

/// The first message of a connection, which has no kind.
async fn startup(client: &mut TcpStream) -> Option<Vec<u8>> {
    let _set = client.set_nodelay(true);
    let mut bytes = vec![0; 4];
    client.read_exact(&mut bytes).await.ok()?;
    rest(client, bytes, 0).await
}

async fn message(from: &mut TcpStream) -> Option<Message> {
    let mut bytes = vec![0; 5];
    from.read_exact(&mut bytes).await.ok()?;
    let kind = bytes[0];
    Some((kind, rest(from, bytes, 1).await?))
}

/// A message whose length, itself included, stands at this place.
async fn rest(from: &mut TcpStream, mut bytes: Vec<u8>, at: usize) -> Option<Vec<u8>> {
    let length = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let begun = bytes.len();
    bytes.resize(at + length, 0);
    from.read_exact(&mut bytes[begun..]).await.ok()?;
    Some(bytes)
}
