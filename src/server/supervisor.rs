//! What a supervisor like systemd is told over the socket that it names: that the server serves, that it drains, and
//! again and again that it lives. Where no socket is named, nobody is told anything.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::sleep;

use crate::common::log_limit::warn_once_a_second;

/// How much may wait for a supervisor that does not listen; what is more is not told.
const WAITING_MAX: usize = 8;
/// The shortest time between two signs of life, whatever the supervisor asks for.
const ALIVE_EVERY_MIN: Duration = Duration::from_millis(10);

/// See the module.
#[derive(Clone)]
pub(super) struct Supervisor(Option<SyncSender<NotifyState<'static>>>);

impl Supervisor {
    /// Telling may wait for the supervisor: a thread of its own does so.
    pub(super) fn found() -> Result<Supervisor, String> {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(Supervisor(None));
        }
        let (sender, waiting) = sync_channel(WAITING_MAX);
        let thread = thread::Builder::new().name("supervisor".into()).spawn(move || tell_all(&waiting));
        thread.map_err(|error| format!("no thread can be started: {error}"))?;
        Ok(Supervisor(Some(sender)))
    }

    /// The server listens. Until the process ends it tells twice within the time that the supervisor allows that it
    /// lives; the threads that serve calls say so.
    pub(super) fn serves(&self) {
        self.tell(NotifyState::Ready);
        if let Some(within) = sd_notify::watchdog_enabled() {
            let (supervisor, every) = (self.clone(), (within / 2).max(ALIVE_EVERY_MIN));
            tokio::spawn(async move {
                loop {
                    supervisor.tell(NotifyState::Watchdog);
                    sleep(every).await;
                }
            });
        }
    }

    /// The server ends soon.
    pub(super) fn drains(&self) {
        self.tell(NotifyState::Stopping);
    }

    fn tell(&self, state: NotifyState<'static>) {
        if let Some(sender) = &self.0 {
            let _not_told = sender.try_send(state);
        }
    }
}

fn tell_all(waiting: &Receiver<NotifyState<'static>>) {
    for state in waiting {
        if let Err(error) = sd_notify::notify(&[state]) {
            warn_once_a_second!(%error, "NOTIFY_SOCKET: the supervisor cannot be told");
        }
    }
}
