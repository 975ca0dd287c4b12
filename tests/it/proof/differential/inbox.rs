//! The inbox: what Store and ClaimNext make of an entry, and the erasure of messages.

use idempotency_ledger_domain::{
    Body, Claim, Claimant, ClockLimits, Context, DueEntry, HandOutBounds, Reading, Span, StoreTime, Verdict,
    hand_out, hand_out_again, store,
};
use uuid::Uuid;

use super::super::spec::{self, Look, Row, Said, World};
use super::super::{by_core, steps};
use super::{Walk, key};

/// Entries of other keys that are remembered as neighbours.
const NEIGHBOURS: usize = 4;

impl Walk {
    /// A message is kept, or not: both say the same, and know the same then.
    pub(super) fn stored(&mut self) -> Result<Said, String> {
        let (print, occurred_at) = steps::message(&mut self.random, self.now);
        let behind = self.random.percent(2);
        let ahead = !behind && self.random.percent(2);
        let (key, row) = (key(&self.policy), self.row());
        let context = Context {
            policy: &self.policy,
            now: StoreTime(self.now),
            token_offset: self.offset,
            position: 1 + self.random.below(1_000) as i64,
            clock_behind: behind,
            clock_before_release: false,
            clock_ahead: ahead,
        };
        let done = store(&key, self.entry.as_ref(), &by_core::message(&print, occurred_at), &context);
        let says = by_core::of_store(&done.answer);
        // The token of a message that is stored first was given to no caller, and is in no answer.
        let choice = done.write.as_ref().map_or(0, |entry| entry.token);
        let world = World { policy: &self.policy, now: self.now, offset: self.offset, behind, ahead, choice };
        let (expected, after) = spec::store(row.as_ref(), (&print, occurred_at), &world);
        self.log.push(format!("at {}, Store {print:?}\n  core: {says:?}\n  spec: {expected:?}", self.now));
        if let Some(next) = done.write {
            let first = (self.now + self.offset) / 1_000 * 1_000;
            if next.version != self.entry.as_ref().map_or(first, |entry| entry.version + 1) {
                return Err(format!("the version of {next:?} after {:?}", self.entry));
            }
            self.entry = Some(next);
        }
        if (&says, &self.row()) != (&expected, &after) {
            let held = self.row();
            return Err(format!(
                "the core says {says:?} and holds {held:?}, the spec {expected:?} and {after:?}"
            ));
        }
        self.forget()?;
        Ok(says)
    }

    /// When a kept message is due, and whether it is handed out alone: both say the same.
    pub(super) fn queued(&self) -> Result<(), String> {
        let (Some(entry), Some(row)) = (&self.entry, self.row()) else { return Ok(()) };
        let says = (entry.next_at().map(|at| at.0), entry.is_suspect(StoreTime(self.now)));
        let expected = (spec::next_at(&row), spec::suspect(&row, self.now));
        if says != expected {
            return Err(format!("due and suspect: the core {says:?}, the spec {expected:?}, of {row:?}"));
        }
        Ok(())
    }

    /// What the erasure does to an entry whose message is due for it; half of the time.
    pub(super) fn erase(&mut self) {
        let Some(after) = self.row().and_then(|row| spec::erased(&row, self.now)) else { return };
        if self.random.percent(50) {
            return;
        }
        if let Some(entry) = &mut self.entry {
            (entry.body, entry.erase_at) = (Some(Body::Erased), None);
            entry.version += 1;
        }
        assert_eq!(self.row(), Some(after), "the erasure changes the state of the message alone");
        self.erased += 1;
        self.log.push(format!("at {} erased", self.now));
    }

    /// A ClaimNext for the entry and its neighbours, and its repeat: both hand out the same messages, park the same entries, and
    /// refuse for the same reason.
    pub(super) fn handed_out(&mut self) -> Result<Said, String> {
        let (behind, ahead) = (self.random.percent(3), false);
        let reading = Reading {
            now: StoreTime(self.now),
            token_offset: self.offset,
            mark: self.now + self.offset + i64::from(behind),
            limits: ClockLimits { jump_max: Span::ZERO, ..ClockLimits::NONE },
        };
        let mut all: Vec<_> = self.neighbours.iter().chain(&self.entry).cloned().collect();
        all.retain(|entry| entry.next_at().is_some_and(|at| at.0 <= self.now));
        all.sort_by_key(|entry| entry.next_at());
        let sizes: Vec<usize> = all.iter().map(|_| 1 + self.random.below(9) as usize).collect();
        let look = Look {
            who: steps::claimant(&mut self.random, &mut self.known),
            lease: self.random.percent(30).then_some(3_000_000),
            max: 1 + self.random.below(4) as usize,
            bytes_max: 1 + self.random.below(20) as usize,
        };
        let claim = Claim {
            claimant: Claimant {
                claim_id: Uuid::from_u128(look.who.0),
                principal: String::new(),
                owner: look.who.1.clone(),
            },
            lease: look.lease.map(Span),
            fingerprint: bytes::Bytes::new(),
            occurred_at: None,
            traceparent: String::new(),
            handed_out: true,
        };
        let bounds = HandOutBounds { messages: look.max, bytes: look.bytes_max };
        let due: Vec<DueEntry<'_>> =
            all.iter().zip(&sizes).map(|(entry, bytes)| DueEntry { entry, bytes: *bytes }).collect();
        let done = hand_out(&due, &claim, bounds, &self.policy, &reading);
        let token = |place: usize| {
            let grant = done.grants.iter().find(|grant| grant.place == place);
            grant.map_or(0, |grant| match grant.verdict {
                Verdict::Acquired { token, .. } => token,
                _ => 0,
            })
        };
        let world =
            World { policy: &self.policy, now: self.now, offset: self.offset, behind, ahead, choice: 0 };
        let rows: Vec<(Row, usize)> =
            all.iter().zip(&sizes).map(|(entry, bytes)| (by_core::row(entry), *bytes)).collect();
        let expected = spec::hand_out(&rows, &look, &token, &world);
        let handed: Vec<(usize, Said)> = done
            .grants
            .iter()
            .map(|grant| (grant.place, by_core::of_verdict(grant.verdict.clone())))
            .collect();
        let wrote: Vec<Row> = done.grants.iter().flat_map(|grant| &grant.write).map(by_core::row).collect();
        let parked: Vec<Row> = done.parked.iter().map(by_core::row).collect();
        let refused = done.refused.clone().map(|rejection| by_core::by_core(&Err(rejection)));
        self.log
            .push(format!("at {} {look:?} of {rows:?}\n  core: {done:?}\n  spec: {expected:?}", self.now));
        let by_spec = (
            expected.handed.iter().map(|(place, said, _)| (*place, said.clone())).collect::<Vec<_>>(),
            expected.handed.iter().map(|(_, _, row)| row.clone()).collect::<Vec<_>>(),
            expected.parked.into_iter().map(|(_, row)| row).collect::<Vec<_>>(),
            expected.refused,
        );
        if (&handed, &wrote, &parked, &refused) != (&by_spec.0, &by_spec.1, &by_spec.2, &by_spec.3) {
            return Err(format!(
                "the core hands out {handed:?}, parks {parked:?}, refuses {refused:?}; the spec: {by_spec:?}"
            ));
        }
        self.handed += if handed.len() > 1 { handed.len() as u64 } else { 0 };
        let written: Vec<_> =
            done.grants.iter().flat_map(|grant| grant.write.clone()).chain(done.parked).collect();
        let place = key(&self.policy);
        for after in written {
            if after.key == place {
                self.entry = Some(after);
            }
        }
        self.again(&look, &claim, &reading)?;
        Ok(refused
            .unwrap_or(Said::Error { reason: format!("handed out {}", handed.len().min(2)), state: None }))
    }

    /// A repeat, a while later, by the same claim or by one with another owner.
    fn again(&mut self, look: &Look, claim: &Claim, reading: &Reading) -> Result<(), String> {
        let Some(entry) = self.entry.clone() else { return Ok(()) };
        let now = self.now + self.random.below(4) as i64 * 4_000_000;
        let reading = Reading { now: StoreTime(now), mark: reading.mark.max(now + self.offset), ..*reading };
        let due = [DueEntry { entry: &entry, bytes: 1 }];
        let done = hand_out_again(&due, claim, &self.policy, &reading);
        let world =
            World { policy: &self.policy, now, offset: self.offset, behind: false, ahead: false, choice: 0 };
        let expected = spec::handed_again(&by_core::row(&entry), look, &world);
        let says = done.first().map(|grant| {
            (by_core::of_verdict(grant.verdict.clone()), grant.write.as_ref().map(by_core::row))
        });
        if says != expected {
            return Err(format!("the core repeats {says:?}, the spec {expected:?}, of {entry:?}"));
        }
        if let Some(write) = done.into_iter().find_map(|grant| grant.write) {
            (self.entry, self.now) = (Some(write), now);
        }
        Ok(())
    }

    /// The entry becomes a neighbour of the walk's key, under another key.
    pub(super) fn remember(&mut self) {
        if let Some(entry) = self.entry.as_ref().filter(|entry| entry.next_at().is_some()) {
            let mut other = entry.clone();
            other.key = idempotency_ledger_domain::Key::new("c", "s", &format!("n{}", self.neighbours.len()));
            let place = self.random.below(NEIGHBOURS as u64) as usize;
            if place < self.neighbours.len() {
                self.neighbours[place] = other;
            } else {
                self.neighbours.push(other);
            }
        }
    }
}
