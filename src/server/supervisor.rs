//! Notifies a supervisor like systemd over the socket in `NOTIFY_SOCKET`: that the server is ready, that it drains, and, as a
//! watchdog, that it is alive. Without the variable, nothing is sent.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::sleep;

use crate::common::log_limit::warn_once_a_second;

/// The maximum number of queued notifications while the supervisor does not read; further ones are dropped.
const WAITING_MAX: usize = 8;
/// The minimum time between two watchdog notifications, whatever the supervisor asks for.
const ALIVE_EVERY_MIN: Duration = Duration::from_millis(10);

/// See the module.
#[derive(Clone)]
pub(super) struct Supervisor(Option<SyncSender<NotifyState<'static>>>);

impl Supervisor {
    /// Starts the notifications on a separate thread, since sending may block.
    pub(super) fn found() -> Result<Supervisor, String> {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(Supervisor(None));
        }
        let (sender, waiting) = sync_channel(WAITING_MAX);
        let thread = thread::Builder::new().name("supervisor".into()).spawn(move || send_all(&waiting));
        thread.map_err(|error| format!("no thread can be started: {error}"))?;
        Ok(Supervisor(Some(sender)))
    }

    /// The server is ready. From now on the threads that serve calls send a watchdog notification twice within the supervisor's
    /// timeout.
    pub(super) fn serves(&self) {
        self.notify(NotifyState::Ready);
        if let Some(within) = sd_notify::watchdog_enabled() {
            let (supervisor, every) = (self.clone(), (within / 2).max(ALIVE_EVERY_MIN));
            tokio::spawn(async move {
                loop {
                    supervisor.notify(NotifyState::Watchdog);
                    sleep(every).await;
                }
            });
        }
    }

    /// The server is stopping.
    pub(super) fn drains(&self) {
        self.notify(NotifyState::Stopping);
    }

    fn notify(&self, state: NotifyState<'static>) {
        if let Some(sender) = &self.0 {
            let _not_told = sender.try_send(state);
        }
    }
}

fn send_all(waiting: &Receiver<NotifyState<'static>>) {
    for state in waiting {
        if let Err(error) = sd_notify::notify(&[state]) {
            warn_once_a_second!(%error, "NOTIFY_SOCKET: the supervisor cannot be notified");
        }
    }
}
