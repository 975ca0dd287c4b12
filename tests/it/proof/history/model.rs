//! One key as a machine that knows times only as intervals: which states an answer can lead to.
//! Long because all operations change the same few private fields.

mod looks;
mod stored;

use super::{Call, Event, Expiry, Facts, Kind, Order, Outcome, Refusal, Rules};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Absent,
    /// RECEIVED or FAILED_RETRYABLE.
    Waiting,
    Held,
    Completed,
    Failed,
    Parked,
}

/// How the last claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum By {
    Open,
    Complete,
    FailRetryable,
    FailTerminal,
    FailPark,
    Release,
    /// Or an operator's park: both leave the token to its holder.
    Expiry,
    /// An operator's redrive or resolve: the claim is forgotten.
    Operator,
    /// There was no claim yet: the message was stored.
    Store,
}

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    phase: Phase,
    by: By,
    /// None: granted to a claim that never learnt it; it is higher than `floor`.
    token: Option<i64>,
    /// The highest token that is known to have been granted before.
    floor: i64,
    claim: u64,
    started: bool,
    rearmed: bool,
    /// Its message is stored.
    kept: bool,
    attempts: i32,
    /// The lease ends within these.
    lease: (i64, i64),
    /// What was fixed when the claim was granted: how long a lease, how much grace, what then.
    span: i64,
    /// The offsets of tokens that may have been in force then.
    offsets: (i64, i64),
    grace: i64,
    expiry: Expiry,
    /// Claimable from an instant within these on, while it waits.
    due: (i64, i64),
}

/// A position in a batch is added to the clock: at most this.
const POSITION_MAX: i64 = 1_000;

impl State {
    pub(super) const ABSENT: State = State {
        phase: Phase::Absent,
        by: By::Open,
        token: None,
        floor: 0,
        claim: 0,
        started: false,
        rearmed: false,
        kept: false,
        attempts: 0,
        lease: (0, 0),
        span: 0,
        offsets: (0, 0),
        grace: 0,
        expiry: Expiry::Reclaim,
        due: (0, 0),
    };

    pub(super) fn attempts(&self) -> i32 {
        self.attempts
    }

    /// Every state in which the key may be once this call has taken effect with this outcome; none:
    /// it cannot have happened now. `facts` are all that may have been in force.
    pub(super) fn after(&self, event: &Event, facts: &Facts) -> Vec<State> {
        match event.call {
            Call::Claim { claim } => self.claimed(claim, event, facts),
            Call::Complete { token }
            | Call::Fail { token, .. }
            | Call::Release { token }
            | Call::Renew { token, .. } => self.settled(token, event, &facts.rules),
            Call::Lookup => self.looked(event, facts),
            Call::Store => self.stored(event),
            Call::Next { claim } => self.handed_out(claim, event, facts),
            Call::Order { order, force } => match event.outcome {
                Outcome::Settled { .. } | Outcome::Unknown => {
                    self.ordered(order, force, event).into_iter().collect()
                }
                _ => Vec::new(),
            },
        }
    }

    /// What an operator's change makes of the key; none: it was not allowed.
    fn ordered(&self, order: Order, force: bool, event: &Event) -> Option<State> {
        if self.phase == Phase::Absent {
            return None;
        }
        let open = self.by == By::Open;
        let unsettled = open || self.by == By::Expiry;
        let rested = event.returned >= self.lease.0.saturating_add(self.grace);
        let floor = self.floor.max(self.token.unwrap_or(0));
        let forgotten = |phase| State {
            phase,
            by: By::Operator,
            token: None,
            floor,
            claim: 0,
            started: false,
            rearmed: false,
            due: (event.invoked, event.returned),
            ..*self
        };
        let danger = self.phase == Phase::Completed || (unsettled && !rested);
        let allowed = match order {
            Order::Park => matches!(self.phase, Phase::Waiting | Phase::Held),
            Order::Delete => force || !(self.phase == Phase::Completed || unsettled),
            Order::Redrive | Order::Complete | Order::FailTerminal | Order::NotDone => force || !danger,
        };
        allowed.then(|| match order {
            Order::Park if open => State { phase: Phase::Parked, by: By::Expiry, ..*self },
            Order::Park => State { phase: Phase::Parked, ..*self },
            Order::Redrive | Order::NotDone => State { attempts: 0, ..forgotten(Phase::Waiting) },
            Order::Complete => forgotten(Phase::Completed),
            Order::FailTerminal => forgotten(Phase::Failed),
            // What was granted before is still higher than nothing.
            Order::Delete => State { floor, ..State::ABSENT },
        })
    }

    fn claimed(&self, claim: u64, event: &Event, facts: &Facts) -> Vec<State> {
        let rules = &facts.rules;
        let same = self.phase != Phase::Absent && self.claim == claim;
        let refusable = matches!(self.by, By::Release | By::FailRetryable);
        let held = self.phase == Phase::Held;
        let waits = self.phase == Phase::Waiting && !(same && refusable);
        // The lease may have been over by then.
        let over = event.returned >= self.lease.0;
        let expired = held && !same && event.returned >= self.lease.0.saturating_add(self.grace);
        let parks = match self.expiry {
            Expiry::Reclaim => false,
            Expiry::Park => true,
            Expiry::ParkIfStarted => self.started,
        };
        let grantable = match self.phase {
            Phase::Absent => true,
            Phase::Waiting => waits && event.returned >= self.due.0,
            Phase::Held => expired && !parks,
            Phase::Completed | Phase::Failed | Phase::Parked => false,
        };
        let closed = match self.phase {
            Phase::Waiting => refusable,
            Phase::Held => self.started || (over && self.rearmed),
            Phase::Absent | Phase::Completed | Phase::Failed | Phase::Parked => false,
        };
        match event.outcome {
            Outcome::Acquired { token, replayed, attempt } => {
                let told = |attempts| attempt == 0 || attempt == attempts;
                let mut next = Vec::new();
                if grantable && told(self.attempts + 1) {
                    next.extend(self.granted(claim, Some(token), event, facts));
                }
                if held && same && !self.started && replayed && self.may_be(token) && told(self.attempts) {
                    next.extend(self.repeated(token, event, rules));
                }
                next
            }
            Outcome::Unknown => {
                let mut next = self.parked(grantable, expired && parks, rules);
                if grantable {
                    next.extend(self.granted(claim, None, event, facts));
                }
                if held && same && !self.started && over && !self.rearmed {
                    next.extend(rules.iter().map(|rules| self.rearmed(event, rules)));
                }
                next
            }
            Outcome::Parked if self.phase == Phase::Parked => vec![*self],
            Outcome::Parked => self.parked(grantable, expired && parks, rules),
            Outcome::Completed => self.only(self.phase == Phase::Completed),
            Outcome::Failed => self.only(self.phase == Phase::Failed),
            Outcome::Backoff => self.only(waits && event.invoked < self.due.1),
            Outcome::InProgress => {
                self.only(held && !same && event.invoked < self.lease.1.saturating_add(self.grace))
            }
            Outcome::Refused(Refusal::ClaimClosed) => self.only(same && closed),
            Outcome::Refused(
                refusal @ (Refusal::Disabled
                | Refusal::RunClosed
                | Refusal::RunForbidden
                | Refusal::RunUnknown),
            ) => {
                let refused = rules.iter().any(|rules| rules.refuses == Some(refusal));
                self.only(refused && (refusal == Refusal::RunUnknown || grantable || (expired && parks)))
            }
            Outcome::Settled { .. }
            | Outcome::Found { .. }
            | Outcome::Stored { .. }
            | Outcome::Refused(_) => Vec::new(),
        }
    }

    /// What a claim may leave behind that grants nothing: the expired is parked, and what has used up
    /// its attempts.
    fn parked(&self, grantable: bool, expires: bool, rules: &[Rules]) -> Vec<State> {
        let mut enabled = rules.iter().filter(|rules| rules.refuses.is_none());
        let possible = if expires {
            enabled.next().is_some()
        } else {
            grantable && enabled.any(|rules| rules.exhausted(self.attempts))
        };
        let by = if self.phase == Phase::Held { By::Expiry } else { self.by };
        if possible { vec![State { phase: Phase::Parked, by, ..*self }] } else { Vec::new() }
    }

    /// The very same claim again: the same token, and once, after its lease, a new lease.
    fn repeated(&self, token: i64, event: &Event, rules: &[Rules]) -> Vec<State> {
        let bound = self.bound(token);
        let mut next = Vec::new();
        if event.invoked < bound.lease.1 {
            next.push(bound);
        }
        if event.returned >= bound.lease.0 && !bound.rearmed {
            next.extend(rules.iter().map(|rules| bound.rearmed(event, rules)));
        }
        next
    }

    /// A new grant, under each of the rules that allow it.
    fn granted(&self, claim: u64, token: Option<i64>, event: &Event, facts: &Facts) -> Vec<State> {
        let (least, greatest) = facts.offsets;
        let floor = self.floor.max(self.token.unwrap_or(0));
        let mut at = (event.invoked, event.returned);
        match self.phase {
            // A reclaim: not before lease and grace were over.
            Phase::Held => at.0 = at.0.max(self.lease.0.saturating_add(self.grace)),
            Phase::Waiting => at.0 = at.0.max(self.due.0),
            Phase::Absent | Phase::Completed | Phase::Failed | Phase::Parked => {}
        }
        if let Some(token) = token {
            // max(old + 1, clock + offset + position): clock and offset are below it, and not far.
            let latest = event.returned.saturating_add(greatest + POSITION_MAX);
            let by_clock = token > event.invoked + least && token <= latest;
            if token <= floor || !(by_clock || succeeds(token, floor)) {
                return Vec::new();
            }
            if !succeeds(token, floor) {
                at = (at.0.max(token - POSITION_MAX - greatest), at.1.min(token - 1 - least));
            }
        }
        if at.0 > at.1 {
            return Vec::new();
        }
        let grants =
            facts.rules.iter().filter(|rules| rules.refuses.is_none() && !rules.exhausted(self.attempts));
        let grant = |rules: &Rules| State {
            phase: Phase::Held,
            by: By::Open,
            token,
            floor,
            claim,
            started: false,
            rearmed: false,
            kept: self.kept,
            attempts: self.attempts + 1,
            lease: (at.0 + rules.lease, at.1.saturating_add(rules.lease)),
            span: rules.lease,
            offsets: facts.offsets,
            grace: rules.grace,
            expiry: rules.expiry,
            due: (0, 0),
        };
        grants.map(grant).collect()
    }

    fn may_be(&self, token: i64) -> bool {
        self.token.map_or(token > self.floor, |known| known == token)
    }

    /// The claim has learnt its token, and with it when it was granted.
    fn bound(&self, token: i64) -> State {
        if self.token.is_some() {
            return *self;
        }
        let mut lease = self.lease;
        if !self.rearmed && !succeeds(token, self.floor) {
            lease.0 = lease.0.max(token - POSITION_MAX - self.offsets.1 + self.span);
            lease.1 = lease.1.min(token - 1 - self.offsets.0 + self.span);
        }
        State { token: Some(token), lease, ..*self }
    }

    fn rearmed(&self, event: &Event, rules: &Rules) -> State {
        let from = event.invoked.max(self.lease.0);
        State {
            rearmed: true,
            lease: (from + rules.lease, event.returned.saturating_add(rules.lease)),
            ..*self
        }
    }

    fn settled(&self, token: i64, event: &Event, rules: &[Rules]) -> Vec<State> {
        if self.phase == Phase::Absent {
            return self.only(event.outcome == Outcome::Refused(Refusal::NotFound));
        }
        match self.token {
            Some(latest) if token == latest => {}
            Some(latest) if token > latest => {
                return self.only(event.outcome == Outcome::Refused(Refusal::TokenFromFuture));
            }
            None if token > self.floor => return Vec::new(),
            Some(_) | None => return self.only(event.outcome == Outcome::Refused(Refusal::LeaseLost)),
        }
        if let Outcome::Refused(refusal) = event.outcome {
            return self.only(self.refuses(event.call) == Some(refusal));
        }
        let (replayed, late, unknown) = match event.outcome {
            Outcome::Settled { replayed, late } => (replayed, late, false),
            Outcome::Unknown => (true, true, true),
            _ => return Vec::new(),
        };
        let mut next = Vec::new();
        // The server may have had to repeat the statement: then even the first answer is a replay.
        for state in self.applied(event, rules) {
            let open = self.by == By::Open;
            let timely = open && event.invoked < self.lease.1;
            let overdue = !open || event.returned >= self.lease.0;
            if unknown || replayed || (if late { overdue } else { timely || !marks_late(event.call) }) {
                next.push(state);
            }
        }
        if !unknown && replayed && self.repeats(event.call) {
            next.push(*self);
        }
        next
    }

    fn only(&self, possible: bool) -> Vec<State> {
        if possible { vec![*self] } else { Vec::new() }
    }

    /// The states once a settlement with the latest token takes effect; none: it would not.
    fn applied(&self, event: &Event, rules: &[Rules]) -> Vec<State> {
        let ended = |phase, by| vec![State { phase, by, ..*self }];
        match event.call {
            Call::Claim { .. } | Call::Lookup | Call::Store | Call::Next { .. } | Call::Order { .. } => {
                Vec::new()
            }
            Call::Complete { .. } => match self.by {
                By::Complete | By::FailTerminal | By::Operator | By::Store => Vec::new(),
                By::Open | By::Release | By::FailRetryable | By::FailPark | By::Expiry => {
                    ended(Phase::Completed, By::Complete)
                }
            },
            _ if self.by != By::Open => Vec::new(),
            Call::Fail { kind: Kind::Retryable, at_once, .. } => {
                rules.iter().map(|rules| self.failed(at_once, event, rules)).collect()
            }
            Call::Fail { kind: Kind::Terminal, .. } => ended(Phase::Failed, By::FailTerminal),
            Call::Fail { kind: Kind::Park, .. } => ended(Phase::Parked, By::FailPark),
            Call::Release { .. } if self.started => Vec::new(),
            Call::Release { .. } => {
                let due = (event.invoked, event.returned);
                let attempts = self.attempts - 1;
                vec![State { phase: Phase::Waiting, by: By::Release, due, attempts, ..*self }]
            }
            Call::Renew { started, .. } => {
                rules.iter().map(|rules| self.renewed(started, event, rules)).collect()
            }
        }
    }

    /// Failed as retryable: it waits for its back-off, or for a person.
    fn failed(&self, at_once: bool, event: &Event, rules: &Rules) -> State {
        let by = By::FailRetryable;
        if rules.exhausted(self.attempts) {
            return State { phase: Phase::Parked, by, ..*self };
        }
        let wait = if at_once { (0, 0) } else { rules.backoff.after(self.attempts) };
        let due = (event.invoked + wait.0, event.returned.saturating_add(wait.1));
        State { phase: Phase::Waiting, by, due, ..*self }
    }

    fn renewed(&self, started: bool, event: &Event, rules: &Rules) -> State {
        State {
            started: self.started || started,
            lease: (
                self.lease.0.max(event.invoked + rules.lease),
                self.lease.1.max(event.returned.saturating_add(rules.lease)),
            ),
            ..*self
        }
    }

    /// The same was recorded before.
    fn repeats(&self, call: Call) -> bool {
        match call {
            Call::Complete { .. } => self.by == By::Complete,
            Call::Fail { kind: Kind::Retryable, .. } => {
                matches!(self.by, By::Release | By::FailRetryable | By::Expiry)
            }
            Call::Fail { kind: Kind::Terminal, .. } => matches!(self.by, By::FailTerminal | By::Expiry),
            Call::Fail { kind: Kind::Park, .. } => matches!(self.by, By::FailPark | By::Expiry),
            Call::Release { .. } => self.by == By::Release,
            Call::Claim { .. }
            | Call::Lookup
            | Call::Store
            | Call::Next { .. }
            | Call::Renew { .. }
            | Call::Order { .. } => false,
        }
    }

    /// Why a settlement with the latest token is refused; none: it is not.
    fn refuses(&self, call: Call) -> Option<Refusal> {
        if self.repeats(call) {
            return None;
        }
        match call {
            Call::Claim { .. } | Call::Lookup | Call::Store | Call::Next { .. } | Call::Order { .. } => None,
            Call::Complete { .. } => (self.by == By::FailTerminal).then_some(Refusal::ClaimClosed),
            Call::Release { .. } if self.by == By::Open => self.started.then_some(Refusal::EffectStarted),
            Call::Fail { .. } | Call::Release { .. } | Call::Renew { .. } => {
                (self.by != By::Open).then_some(Refusal::ClaimClosed)
            }
        }
    }
}

/// The token was made from the one before it, and tells no time.
fn succeeds(token: i64, floor: i64) -> bool {
    floor > 0 && token == floor + 1
}

/// Fail and Release do not say whether they came late.
fn marks_late(call: Call) -> bool {
    matches!(call, Call::Complete { .. } | Call::Renew { .. })
}
