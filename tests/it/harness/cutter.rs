//! A TCP proxy that resets one connection, when its client sends the n-th packet since the proxy began.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Which part of a statement is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It never arrives.
    Statement,
    /// It is carried out, and its answer never arrives.
    Answer,
}

/// How long the answer to a packet may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) struct Cutter {
    pub(crate) address: SocketAddr,
    sent: Arc<AtomicU64>,
    cut: Arc<AtomicBool>,
}

impl Cutter {
    /// `number`: from one on.
    pub(crate) async fn before(target: SocketAddr, number: u64, lost: Lost) -> Cutter {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cutter = Cutter { address, sent: Arc::default(), cut: Arc::default() };
        let (sent, cut) = (Arc::clone(&cutter.sent), Arc::clone(&cutter.cut));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (sent, cut) = (Arc::clone(&sent), Arc::clone(&cut));
                tokio::spawn(relay(near, target, (sent, number), lost, cut));
            }
        });
        cutter
    }

    /// The number of packets that clients have sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Whether the packet was reached.
    pub(crate) fn has_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }
}

async fn relay(
    mut near: TcpStream,
    target: SocketAddr,
    (sent, number): (Arc<AtomicU64>, u64),
    lost: Lost,
    cut: Arc<AtomicBool>,
) {
    let Ok(mut far) = TcpStream::connect(target).await else { return };
    let _set = (near.set_nodelay(true), far.set_nodelay(true));
    let (mut there, mut back) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = near.read(&mut there) => {
                let Ok(count @ 1..) = read else { return };
                let mine = sent.fetch_add(1, Ordering::SeqCst) + 1 == number;
                if mine && lost == Lost::Answer {
                    let _sent = far.write_all(&there[..count]).await;
                    // Some packets have no answer.
                    let _answer = tokio::time::timeout(ANSWER_WITHIN, far.read(&mut back)).await;
                }
                if mine {
                    cut.store(true, Ordering::SeqCst);
                    // With this a close is a reset.
                    let _set = near.set_zero_linger();
                    return;
                }
                if far.write_all(&there[..count]).await.is_err() {
                    return;
                }
            }
            read = far.read(&mut back) => {
                let Ok(count @ 1..) = read else { return };
                if near.write_all(&back[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}
