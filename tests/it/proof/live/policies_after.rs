//! After the harm: the consumers whose policies change are served again, and every replica tells so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use idempotency_ledger::proto;

use super::policies::{CHANGING, Tuner};
use super::world::World;
use crate::proof::history::EVERYWHERE;

/// What an operator asked just when a connection went silent may take 15 s, and whoever asks next waits for it.
const SILENT: Duration = Duration::from_secs(20);

/// All consumers are served again: by changes like any other.
pub(crate) async fn enable(world: &Arc<World>) {
    if world.policies.first.lock().unwrap().is_empty() {
        return;
    }
    let mut tuner = Tuner::new(world, 9);
    for (consumer, _) in CHANGING {
        tuner.enable(consumer).await;
    }
    if world.everywhere == EVERYWHERE {
        // By now the one that is never asked must go by it too.
        tokio::time::sleep(Duration::from_micros(EVERYWHERE as u64)).await;
        for (consumer, _) in CHANGING {
            tuner.probe(consumer, world.replicas.len() - 1).await;
        }
    }
    for (consumer, _) in CHANGING {
        for replica in 0..world.replicas.len() {
            tuner.look_until_seen(consumer, replica).await;
        }
    }
}

impl Tuner {
    /// Puts the consumer's policy so that it is served again.
    async fn enable(&mut self, consumer: &'static str) {
        let until = Instant::now() + SILENT;
        loop {
            let shown = self.look_until_seen(consumer, 0).await;
            let enabled = proto::Policy { disabled: Some(false), ..Default::default() };
            let asked = self.asking(consumer, shown.version, Some(enabled), None);
            if self.ask(0, &asked).await {
                return;
            }
            assert!(Instant::now() < until, "{consumer} cannot be enabled");
        }
    }

    /// The policy that a replica goes by, as soon as it is told.
    pub(super) async fn look_until_seen(
        &self,
        consumer: &'static str,
        replica: usize,
    ) -> proto::ConsumerPolicy {
        let until = Instant::now() + SILENT;
        loop {
            if let Some(shown) = self.look(consumer, replica).await {
                return shown;
            }
            assert!(Instant::now() < until, "replica {replica} does not tell the policy of {consumer}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
