//! A TCP proxy that does what networks do: cuts after some bytes, with a reset or politely, closes one
//! direction only, delays, goes silent.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::random::Random;

/// How long a connection that went silent stays open.
const SILENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Both ends see a reset.
    Reset,
    /// Both ends see an orderly end.
    Close,
    /// The sender cannot send any more; the other direction goes on for a while.
    HalfClose,
    /// Nothing more is passed on in any direction, and nobody is told.
    Silence,
    /// This direction is slow, then it is cut.
    Delay,
}

/// What is shared by all proxies of a run.
#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) cuts: AtomicU64,
    /// No more faults.
    pub(crate) calm: std::sync::atomic::AtomicBool,
}

/// How often a proxy looks whether its target is back.
const BACK_EVERY: Duration = Duration::from_millis(20);

/// Starts a proxy; connections to the address that it returns end at `target`. While nobody listens there, nobody
/// listens at the proxy either: a call that cannot be sent is certainly not applied, with a proxy as without.
pub(crate) async fn proxy(target: SocketAddr, faults: Arc<Faults>, mut random: Random) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut listener = listener;
        while let Ok((near, _)) = listener.accept().await {
            let Ok(far) = TcpStream::connect(target).await else {
                drop((near, listener));
                listener = once_more(address, target).await;
                continue;
            };
            let random = Random::new(random.next());
            tokio::spawn(relay(near, far, Arc::clone(&faults), random));
        }
    });
    address
}

/// Listens at the same address as soon as the target is back.
async fn once_more(address: SocketAddr, target: SocketAddr) -> TcpListener {
    loop {
        tokio::time::sleep(BACK_EVERY).await;
        if TcpStream::connect(target).await.is_ok()
            && let Ok(listener) = TcpListener::bind(address).await
        {
            return listener;
        }
    }
}

async fn relay(near: TcpStream, far: TcpStream, faults: Arc<Faults>, mut random: Random) {
    let _set = (near.set_nodelay(true), far.set_nodelay(true));
    let fault = match random.below(100) {
        0..30 => Fault::Reset,
        30..60 => Fault::Close,
        60..75 => Fault::HalfClose,
        75..85 => Fault::Silence,
        _ => Fault::Delay,
    };
    // Enough to get through the handshake, most of the time.
    let bytes = 200 + random.below(20_000);
    let there = random.percent(50);
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    let budget = |mine: bool| if mine { bytes } else { u64::MAX };
    let cut = Arc::new(Mutex::new(None));
    let go = pass(near_in, far_out, budget(there), fault, Arc::clone(&faults), Arc::clone(&cut));
    let back = pass(far_in, near_out, budget(!there), fault, Arc::clone(&faults), Arc::clone(&cut));
    let (mut go, mut back) = (tokio::spawn(go), tokio::spawn(back));
    tokio::select! {
        _ = &mut go => {}
        _ = &mut back => {}
    }
    let happened = *cut.lock().unwrap();
    match happened {
        Some(Fault::HalfClose) => {
            let _rest = tokio::time::timeout(SILENCE, async {
                (go.is_finished() || (&mut go).await.is_ok(), back.is_finished() || (&mut back).await.is_ok())
            })
            .await;
        }
        Some(Fault::Silence) => {
            go.abort();
            back.abort();
            tokio::time::sleep(SILENCE).await;
        }
        Some(Fault::Reset | Fault::Close | Fault::Delay) | None => {}
    }
    go.abort();
    back.abort();
}

/// Passes bytes on until the budget is used up.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut budget: u64,
    fault: Fault,
    faults: Arc<Faults>,
    cut: Arc<Mutex<Option<Fault>>>,
) {
    let mut buffer = vec![0; 4_096];
    loop {
        let Ok(count) = from.read(&mut buffer).await else { return };
        if count == 0 {
            let _closed = to.shutdown().await;
            return;
        }
        let part = count.min(usize::try_from(budget).unwrap_or(usize::MAX));
        if to.write_all(&buffer[..part]).await.is_err() {
            return;
        }
        if faults.calm.load(Ordering::Relaxed) {
            if part < count && to.write_all(&buffer[part..count]).await.is_err() {
                return;
            }
            continue;
        }
        budget -= part as u64;
        if fault == Fault::Delay && budget < u64::MAX / 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if part < count || budget == 0 {
            faults.cuts.fetch_add(1, Ordering::Relaxed);
            *cut.lock().unwrap() = Some(fault);
            match fault {
                Fault::Reset => {
                    // With this a close is a reset.
                    let _set = to.as_ref().set_zero_linger();
                    let _set = from.as_ref().set_zero_linger();
                }
                Fault::HalfClose => {
                    let _closed = to.shutdown().await;
                }
                Fault::Close | Fault::Silence | Fault::Delay => {}
            }
            return;
        }
    }
}
