//! The signals that end a server, and one that does not.

use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Signals, String> {
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

pub(super) async fn second_signal() {
    let Ok(mut signals) = Signals::new() else { return std::future::pending().await };
    signals.next().await;
    signals.next().await;
}

/// From here on SIGHUP, as of a terminal that is closed, does not end the process: it has the files of credentials read
/// at once. Tells of each.
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
    signal(kind).map_err(|error| format!("signals cannot be received: {error}"))
}
