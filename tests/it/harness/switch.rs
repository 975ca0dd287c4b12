//! A TCP proxy with a switch: what passes it can go silent, without a word to either end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What passes.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Connections before this one are silent for ever.
    dead_before: u64,
    /// Nothing passes at this moment, on any connection.
    silent: bool,
}

#[derive(Clone)]
pub(crate) struct Switch {
    pub(crate) address: SocketAddr,
    state: Arc<watch::Sender<State>>,
    next: Arc<AtomicU64>,
}

impl Switch {
    pub(crate) async fn before(target: SocketAddr) -> Switch {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let switch = Switch {
            address: listener.local_addr().unwrap(),
            state: Arc::new(watch::Sender::new(State { dead_before: 0, silent: false })),
            next: Arc::default(),
        };
        let all = switch.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let number = all.next.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(relay(near, target, number, all.state.subscribe()));
            }
        });
        switch
    }

    /// Every connection that is open now is a black hole from now on; new ones pass.
    pub(crate) fn kill_open(&self) {
        let next = self.next.load(Ordering::SeqCst);
        self.state.send_modify(|state| state.dead_before = next);
    }

    /// Nothing passes, not even on new connections; or everything again, what was held back too.
    pub(crate) fn silence(&self, silent: bool) {
        self.state.send_modify(|state| state.silent = silent);
    }
}

async fn relay(near: TcpStream, target: SocketAddr, number: u64, state: watch::Receiver<State>) {
    let Ok(far) = TcpStream::connect(target).await else { return };
    let _set = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    let go = pass(near_in, far_out, number, state.clone());
    let back = pass(far_in, near_out, number, state);
    tokio::join!(go, back);
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    number: u64,
    mut state: watch::Receiver<State>,
) {
    let mut buffer = vec![0; 16_384];
    loop {
        let Ok(count) = from.read(&mut buffer).await else { return };
        let passes = |state: &State| !state.silent && number >= state.dead_before;
        if state.wait_for(passes).await.is_err() || count == 0 {
            let _closed = to.shutdown().await;
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
