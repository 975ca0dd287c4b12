//! Effects that happened without a claim.

use idempotency_ledger_domain::{Context, ReconcileWrite, StoreTime, reconcile};

use super::super::spec::{Said, World};
use super::super::{by_core, reconciled};
use super::{Walk, key};

impl Walk {
    /// An effect without a claim: both say the same of it, and make the same of the row.
    pub(super) fn reconcile(&mut self) -> Result<Said, String> {
        let effect = reconciled::effect(&mut self.random, &self.seen, self.now);
        let behind = self.random.percent(2);
        let ahead = !behind && self.random.percent(2);
        let context = Context {
            policy: &self.policy,
            now: StoreTime(self.now),
            token_offset: self.offset,
            position: 1,
            clock_behind: behind,
            clock_before_release: false,
            clock_ahead: ahead,
        };
        let row = self.row();
        let world =
            World { policy: &self.policy, now: self.now, offset: self.offset, behind, ahead, choice: 0 };
        let (expected, after) = reconciled::reconcile(row.as_ref(), &effect, &self.seen, &world);
        let audited = self.seen.audited(&effect);
        let (key, asked) = (key(&self.policy), by_core::effect(&effect));
        let decided = reconcile(&key, self.entry.as_ref(), &asked, audited, &context);
        self.log.push(format!("at {} {effect:?}\n  core: {decided:?}\n  spec: {expected:?}", self.now));
        let says = by_core::reconciled(&decided);
        let version = self.entry.as_ref().map_or(0, |entry| entry.version);
        match decided.map(|decided| decided.write) {
            Ok(ReconcileWrite::New(entry)) => {
                let mut entry = entry.stamped(StoreTime(self.now), self.now + self.offset);
                entry.version += 1;
                self.entry = Some(entry);
            }
            Ok(ReconcileWrite::Changed(entry)) if entry.version == version + 1 => self.entry = Some(*entry),
            Ok(ReconcileWrite::Changed(entry)) => {
                return Err(format!("the version of {entry:?} after {version}"));
            }
            Ok(ReconcileWrite::Nothing | ReconcileWrite::Event) | Err(_) => {}
        }
        if (says.as_str(), self.row()) != (expected, after.clone()) {
            return Err(format!(
                "the core says {says} and holds {:?}, the spec {expected} and {after:?}, of {effect:?}",
                self.row()
            ));
        }
        self.seen.note(&effect, expected);
        Ok(Said::Error { reason: format!("reconcile {expected}"), state: None })
    }
}
