//! Claims in replay runs that are answered without a look at their entries.

use std::sync::Arc;

use crate::domain::{Policy, Span, Standing, StoreTime, without_entry};
use crate::ledger::claims::request::Chain;
use crate::ledger::claims::round::timed::within;
use crate::ledger::claims::round::{Round, answered};
use crate::ledger::policies::run_lookups::NotInForce;
use crate::metrics::Statement;
use crate::store::StoreError;

impl Round<'_> {
    /// Answers the first claims of a chain whose run alone decides them: nothing is read or written for them. Gives the
    /// rest back. While this server cannot know how the run stands, the rest is everything: who loads finds out.
    pub(in crate::ledger::claims) async fn answered_by_its_run(&mut self, chain: Chain) -> Option<Chain> {
        let Some(now) = self.shared.clock.by_now().filter(|_| self.knows_policies()) else {
            return Some(chain);
        };
        let mut policy = self.policies.of_key(&chain.key);
        if policy.run == Standing::Unknown {
            policy = match self.looked_up(&chain, now).await {
                Ok(policy) => policy,
                // The load will meet the same fault.
                Err(_) => return Some(chain),
            };
        }
        let mut rest = Some(chain);
        while let Some(chain) = rest.take() {
            match without_entry(&chain.key, &chain.head.command, &policy, now) {
                Some(answer) => rest = answered(chain, Some(answer)),
                None => return Some(chain),
            }
        }
        None
    }

    /// Whether an answer may follow from the policies alone, without an entry.
    fn knows_policies(&self) -> bool {
        self.policies.fresh() && !self.shared.store.withholds_grants()
    }

    /// The policy, after a second look at whether somebody has registered the run.
    async fn looked_up(&mut self, chain: &Chain, now: StoreTime) -> Result<Arc<Policy>, StoreError> {
        let (key, lookups) = (&chain.key, &self.shared.policies.lookups);
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
            // All of its entries are gone: whatever it was for, it grants nothing.
            let run = Standing::Known { mode: crate::domain::RunMode::Suppress, end: now - Span(1) };
            policy = Arc::new(Policy { run, ..Policy::clone(&policy) });
        }
        Ok(policy)
    }
}
