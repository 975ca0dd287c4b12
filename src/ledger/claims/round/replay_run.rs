//! Claims in replay runs that are answered without reading their entries.

use std::sync::Arc;

use crate::domain::{Policy, Span, Standing, StoreTime, without_entry};
use crate::ledger::claims::request::KeyQueue;
use crate::ledger::claims::round::timed::within;
use crate::ledger::claims::round::{Round, answered};
use crate::ledger::policies::run_lookups::NotInForce;
use crate::metrics::Statement;
use crate::store::StoreError;

impl Round<'_> {
    /// Answers the leading claims that their replay run alone decides: nothing is read or written for them. Returns the
    /// rest, which is everything while this server cannot know the state of the run: the load finds it out.
    pub(in crate::ledger::claims) async fn answered_by_its_run(
        &mut self,
        key_queue: KeyQueue,
    ) -> Option<KeyQueue> {
        if !self.knows_policies() {
            return Some(key_queue);
        }
        // The load will fail in the same way.
        let Ok(now) = self.recent_clock().await else { return Some(key_queue) };
        let mut policy = self.policies.of_key(&key_queue.key);
        if policy.run == Standing::Unknown {
            let Ok(found) = self.looked_up(&key_queue, now).await else { return Some(key_queue) };
            policy = found;
        }
        let mut rest = Some(key_queue);
        while let Some(key_queue) = rest.take() {
            match without_entry(&key_queue.key, &key_queue.head.command, &policy, now) {
                Some(answer) => rest = answered(key_queue, Some(answer)),
                None => return Some(key_queue),
            }
        }
        None
    }

    /// The store's clock. A server that has just started has not read it yet: without it a run that the server does not know would
    /// be refused before it is looked up.
    async fn recent_clock(&mut self) -> Result<StoreTime, StoreError> {
        if let Some(now) = self.shared.clock.by_now() {
            return Ok(now);
        }
        let read = self.session.entries().load(&[]);
        let reading = within(self.shared, &self.span, (Statement::Policies, 1), read).await?.reading;
        self.shared.clock.note(&reading);
        Ok(reading.now)
    }

    /// Whether an answer may follow from the policies alone, without an entry.
    fn knows_policies(&self) -> bool {
        self.policies.fresh() && !self.shared.store.withholds_grants()
    }

    /// The policy, after a second look at whether the run was registered meanwhile.
    async fn looked_up(&mut self, key_queue: &KeyQueue, now: StoreTime) -> Result<Arc<Policy>, StoreError> {
        let (key, lookups) = (&key_queue.key, &self.shared.policies.lookups);
        let turn = lookups.turn(key.namespace());
        if turn == NotInForce::MayLook {
            let refresh = self.shared.policies.refresh(&mut *self.session);
            self.policies = within(self.shared, &self.span, (Statement::Policies, 1), refresh).await?;
        }
        let mut policy = self.policies.of_key(key);
        let past = policy.run == Standing::Unknown
            && match turn {
                NotInForce::MayLook => {
                    let look = lookups.is_past(&mut *self.session, key.namespace(), now);
                    within(self.shared, &self.span, (Statement::Policies, 1), look).await?
                }
                NotInForce::Past => true,
                NotInForce::Unknown => false,
            };
        if past {
            // All of its entries are gone: whatever its mode was, it grants nothing.
            let run = Standing::Known { mode: crate::domain::RunMode::Suppress, end: now - Span(1) };
            policy = Arc::new(Policy { run, ..Policy::clone(&policy) });
        }
        Ok(policy)
    }
}
