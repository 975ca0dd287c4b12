//! Loads the keys for which calls wait, since other servers change them too: on a separate session, which is opened for the
//! first waiting call, and has no influence on health. Without waiting calls it does nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::room::Room;
use crate::common::log_limit::warn_once_a_second;
use crate::domain::{Key, Sight, sight};
use crate::ledger::runtime::{Instant, pause, timeout};
use crate::ledger::schema_fence::SchemaFence;
use crate::ledger::tasks::opened;
use crate::metrics::{Metrics, Statement};
use crate::store::{Purpose, Session, Store, StoreError};

/// Time limit of a poll, including the opening of its session.
const WITHIN: Duration = Duration::from_secs(3);
/// How long the session is kept open while no call waits.
const KEPT_FOR: Duration = Duration::from_mins(1);

/// The state of the poller.
#[derive(Clone)]
pub(in crate::ledger) struct Poller {
    room: Arc<Room>,
    store: Arc<dyn Store>,
    outdated: SchemaFence,
    metrics: Metrics,
}

impl Poller {
    pub(in crate::ledger) fn new(
        room: &Arc<Room>,
        store: &Arc<dyn Store>,
        outdated: &SchemaFence,
        metrics: &Metrics,
    ) -> Poller {
        let (outdated, metrics) = (outdated.clone(), metrics.clone());
        Poller { room: Arc::clone(room), store: Arc::clone(store), outdated, metrics }
    }

    /// Polls until the server stops.
    pub(in crate::ledger) async fn run(self, stop: CancellationToken) {
        let mut session: Option<Box<dyn Session>> = None;
        loop {
            let stirred = self.room.stirred.notified();
            if let Some(at) = self.room.next() {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = stirred => {}
                    () = pause(at.saturating_duration_since(Instant::now())) => {}
                }
            } else {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = stirred => {}
                    () = pause(KEPT_FOR), if session.is_some() => session = None,
                }
            }
            let now = Instant::now();
            self.room.let_due_look(now);
            let keys = self.room.take_due(now);
            if !keys.is_empty()
                && let Err(error) = self.poll(&mut session, &keys).await
            {
                warn_once_a_second!(%error, keys = keys.len(), "keys for which calls wait could not be loaded");
                session = None;
            }
        }
    }

    async fn poll(&self, session: &mut Option<Box<dyn Session>>, keys: &[Key]) -> Result<(), StoreError> {
        self.outdated.check()?;
        let sent = std::time::Instant::now();
        let load = async { opened(&*self.store, Purpose::Waits, session).await?.entries().load(keys).await };
        let loaded = timeout(WITHIN, load).await;
        self.metrics.work().sent(Statement::Poll, keys.len(), sent.elapsed());
        let loaded = match loaded {
            Ok(loaded) => loaded?,
            Err(_) => return Err(StoreError::Unknown(format!("no answer within {WITHIN:?}"))),
        };
        for (key, found) in keys.iter().zip(loaded.found) {
            let sight = match found.entry(key.hash()) {
                Ok(entry) => sight(entry, loaded.reading.now),
                // The look of each call is refused with that error, a Lookup's too.
                Err(_) => Sight::Settled,
            };
            self.room.polled(key.hash(), &sight);
        }
        Ok(())
    }
}
