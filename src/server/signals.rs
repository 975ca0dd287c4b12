//! Signals that end a server, from the start of the program on, and two that do not: SIGHUP, as sent by a closing terminal, and
//! SIGXFSZ.
//!
//! The first process of a container (PID 1) has no default action for signals: without a handler SIGTERM is ignored until the
//! supervisor's whole grace period is over. So a separate thread receives SIGTERM and SIGINT before anything that may block is
//! read, and ends the process by itself until the server has taken over.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};

/// Sent when a file reaches the size limit (`ulimit -f`, `LimitFSIZE=`): by default, a log that is too large would end the
/// process. If the signal is ignored, the write fails as on a full disk.
const TOO_LARGE: rustix::process::Signal = rustix::process::Signal::XFSZ;

/// Called when a signal ends the process before the server has taken over; returns the exit code.
pub(super) type End = Box<dyn FnOnce(&'static str) -> u8 + Send>;

/// The received signals.
#[derive(Clone)]
pub(super) struct Signals {
    count: watch::Receiver<u32>,
    /// `None` once the server has taken over.
    end: Arc<Mutex<Option<End>>>,
}

impl Signals {
    /// Receives signals from now on.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub(super) fn received(end: End) -> Result<Signals, String> {
        let (sender, count) = watch::channel(0);
        let signals = Signals { count, end: Arc::new(Mutex::new(Some(end))) };
        let (ready, begun) = sync_channel(1);
        let early = Arc::clone(&signals.end);
        let receive = move || {
            let received = async {
                let mut both = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
                let mut too_large = listen(SignalKind::from_raw(TOO_LARGE.as_raw()))?;
                let mut hangup = listen(SignalKind::hangup())?;
                drop(ready.send(Ok(())));
                loop {
                    let name = tokio::select! {
                        _ = both.0.recv() => "SIGTERM",
                        _ = both.1.recv() => "SIGINT",
                        _ = too_large.recv() => continue,
                        // Before the server serves, there is nothing to read again; afterwards `hangups` receives the signal too.
                        _ = hangup.recv() => continue,
                    };
                    if let Some(end) = taken(&early) {
                        std::process::exit(end(name).into());
                    }
                    sender.send_modify(|count| *count += 1);
                }
            };
            let runtime = Builder::new_current_thread().enable_io().build();
            let ended: Result<(), String> = runtime.map_err(unreceived).and_then(|it| it.block_on(received));
            drop(ready.send(ended));
        };
        thread::Builder::new().name("signals".into()).spawn(receive).map_err(unreceived)?;
        begun.recv().map_err(unreceived)??;
        Ok(signals)
    }

    /// From now on the caller handles signals.
    pub(super) fn take_over(&self) {
        drop(taken(&self.end));
    }

    /// Waits until this number of signals have arrived.
    pub(super) async fn reach(&self, number: u32) {
        let mut count = self.count.clone();
        if count.wait_for(|count| *count >= number).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn taken(end: &Mutex<Option<End>>) -> Option<End> {
    end.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// From now on SIGHUP makes the server read the files of credentials immediately. Each signal notifies the returned handle.
///
/// # Errors
/// Signals cannot be received.
pub(super) fn hangups() -> Result<Arc<Notify>, String> {
    let mut hangup = listen(SignalKind::hangup())?;
    let heard = Arc::new(Notify::new());
    let tell = Arc::clone(&heard);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            tracing::info!(
                "SIGHUP: the files of TLS, tokens and rights are read again, where there are some; all other settings \
                 are read at the start only: restart to change them"
            );
            tell.notify_one();
        }
    });
    Ok(heard)
}

fn listen(kind: SignalKind) -> Result<Signal, String> {
    signal(kind).map_err(unreceived)
}

fn unreceived(error: impl std::fmt::Display) -> String {
    format!("signals cannot be received: {error}")
}
