//! The signals that end a server.

use tokio::signal::unix::{Signal, SignalKind, signal};

pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Signals, String> {
        let listen = |kind| signal(kind).map_err(|error| format!("signals can not be received: {error}"));
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
