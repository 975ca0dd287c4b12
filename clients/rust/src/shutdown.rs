//! How a process stops in good order: by a signal, within a bound.

use std::{
    io,
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
    iterator::Signals,
    low_level,
};
use tokio::sync::watch;

const CODE: i32 = 1;

/// From the first SIGTERM or SIGINT on [`requested`](Self::requested) is true; a second one, or the end of the grace, ends
/// the process with the code 1, whatever it is doing.
///
/// After it was requested: take no new message, and call [`Ledger::close`](crate::Ledger::close), which waits for running
/// effects; then let the process end. Give the supervisor a longer time than the grace. It may be made once in a process;
/// clones share it. A thread waits for the signals.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Installs the handling of both signals. `grace`: how long the stop may take.
    ///
    /// # Errors
    /// What the system says where a handler or the thread cannot be made.
    pub fn new(grace: Duration) -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            // In this order: the second signal finds the flag that the first one has set. It ends the process from within
            // the handler, also where all threads of the runtime are busy.
            flag::register_conditional_shutdown(signal, CODE, Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        let (sender, receiver) = watch::channel(false);
        thread::Builder::new().name("idempotency-ledger-shutdown".to_owned()).spawn(move || {
            if signals.forever().next().is_some() {
                sender.send_replace(true);
                thread::sleep(grace);
                low_level::exit(CODE);
            }
        })?;
        Ok(Self(receiver))
    }

    /// Whether a signal has asked the process to stop.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until a signal asks the process to stop.
    pub async fn requested(&self) {
        let mut changes = self.0.clone();
        if changes.wait_for(|asked| *asked).await.is_err() {
            std::future::pending::<()>().await; // The thread is gone: nothing asks any more.
        }
    }
}
