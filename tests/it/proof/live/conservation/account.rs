//! What is known of each message: its grants, and how it ended.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use idempotency_ledger::domain::State;

/// A message that was handed out: what its answer shows of the claim.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) token: i64,
    pub(super) invoked: i64,
    pub(super) returned: i64,
    /// What remained of the lease: it ends no earlier than this long after the call was sent.
    pub(super) lease: i64,
}

#[derive(Default)]
struct Fate {
    grants: Vec<Grant>,
    /// For each token, when its holder began to settle the claim.
    settled: Vec<(i64, i64)>,
    /// The tokens whose Complete was answered OK.
    completed: BTreeSet<i64>,
    given_up: bool,
    acknowledged: bool,
}

/// See the module.
pub(super) struct Account {
    fates: Mutex<Vec<Fate>>,
    next: AtomicUsize,
    allowed: AtomicUsize,
    size: usize,
    over: AtomicBool,
    problem: Mutex<Option<String>>,
    pub(super) repeats: AtomicUsize,
    pub(super) deaths: AtomicUsize,
    pub(super) stored_again: AtomicUsize,
}

/// Messages that have not ended.
pub(super) struct Open {
    pub(super) count: usize,
    /// How many of them the ledger does not have, and some that it has.
    pub(super) shown: String,
}

impl Account {
    pub(super) fn new(size: usize) -> Account {
        Account {
            fates: Mutex::new((0..size).map(|_| Fate::default()).collect()),
            next: AtomicUsize::new(0),
            allowed: AtomicUsize::new(0),
            size,
            over: AtomicBool::new(false),
            problem: Mutex::default(),
            repeats: AtomicUsize::new(0),
            deaths: AtomicUsize::new(0),
            stored_again: AtomicUsize::new(0),
        }
    }

    /// Sets how many messages may be stored by now.
    pub(super) fn allow(&self, count: u64) {
        self.allowed.store(usize::try_from(count).unwrap(), Ordering::Relaxed);
    }

    /// The next messages to store. `None` once there are no more.
    pub(super) fn take(&self, most: usize) -> Option<Vec<usize>> {
        let allowed = self.allowed.load(Ordering::Relaxed);
        let taken = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
            (next < allowed).then(|| (next + most).min(allowed))
        });
        match taken {
            Ok(from) => Some((from..(from + most).min(allowed)).collect()),
            Err(next) if next >= self.size => None,
            Err(_) => Some(Vec::new()),
        }
    }

    pub(super) fn acknowledge(&self, number: usize) {
        self.fates.lock().unwrap()[number].acknowledged = true;
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.fates.lock().unwrap().iter().filter(|fate| fate.acknowledged).count()
    }

    pub(super) fn granted(&self, number: usize, grant: Grant) {
        self.fates.lock().unwrap()[number].grants.push(grant);
    }

    pub(super) fn settles(&self, number: usize, token: i64, at: i64) {
        self.fates.lock().unwrap()[number].settled.push((token, at));
    }

    pub(super) fn completed(&self, number: usize, token: i64) {
        self.fates.lock().unwrap()[number].completed.insert(token);
    }

    pub(super) fn given_up(&self, number: usize) {
        self.fates.lock().unwrap()[number].given_up = true;
    }

    pub(super) fn fails(&self, problem: String) {
        self.problem.lock().unwrap().get_or_insert(problem);
    }

    pub(super) fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// What has not ended by these states. `None` if all has.
    pub(super) fn open(&self, states: &[(String, i64)]) -> Option<Open> {
        let missing = self.size - states.len().min(self.size);
        let open = || states.iter().filter(|(_, state)| !is_final(*state));
        let some: Vec<&str> = open().map(|(id, _)| &**id).take(9).collect();
        let shown = format!("{missing} messages are missing, open are {some:?}");
        Some(Open { count: missing + open().count(), shown }).filter(|open| open.count > 0)
    }

    /// Every message is there once, ended as its workers know, and had one live claim at a time.
    pub(super) fn judge(&self, states: &[(String, i64)]) -> Result<(), String> {
        if let Some(problem) = self.problem.lock().unwrap().take() {
            return Err(problem);
        }
        let fates = self.fates.lock().unwrap();
        for (id, state) in states {
            let fate = id.parse::<usize>().ok().and_then(|number| fates.get(number));
            let Some(fate) = fate else { return Err(format!("{id} was never stored")) };
            let done = *state == number_of(State::Completed);
            if !fate.acknowledged || fate.completed.len() > 1 || (!done && !fate.completed.is_empty()) {
                return Err(format!(
                    "{id} in state {state}: acknowledged {}, completed by {:?}",
                    fate.acknowledged, fate.completed
                ));
            }
            if !done && !fate.given_up {
                return Err(format!("{id} is in state {state}, and no worker gave it up"));
            }
            if let Some((one, other)) = two_live_claims(fate) {
                return Err(format!("{id} was handed to two live claims: {one:?} and {other:?}"));
            }
        }
        Ok(())
    }

    pub(super) fn counted(&self) -> String {
        let fates = self.fates.lock().unwrap();
        let grants: usize = fates.iter().map(|fate| fate.grants.len()).sum();
        let given_up = fates.iter().filter(|fate| fate.given_up).count();
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        format!(
            "{} messages stored and acknowledged, {} of them again, {grants} handed out, {} handouts repeated, {} left by dead \
             workers, {given_up} given up",
            fates.len(),
            of(&self.stored_again),
            of(&self.repeats),
            of(&self.deaths),
        )
    }
}

/// A later claim that was granted while the earlier one was surely live: before its lease was over, and before its holder began to
/// settle it.
fn two_live_claims(fate: &Fate) -> Option<(&Grant, &Grant)> {
    let settled = |token| fate.settled.iter().filter(|(one, _)| *one == token).map(|(_, at)| *at).min();
    let pairs = fate.grants.iter().flat_map(|one| fate.grants.iter().map(move |other| (one, other)));
    pairs.into_iter().find(|(one, other)| {
        let live_until = (one.invoked + one.lease).min(settled(one.token).unwrap_or(i64::MAX));
        one.token < other.token && other.returned < live_until
    })
}

fn is_final(state: i64) -> bool {
    [State::Completed, State::FailedTerminal].into_iter().any(|one| number_of(one) == state)
}

/// A state's number in the database.
fn number_of(state: State) -> i64 {
    match state {
        State::Completed => 4,
        State::FailedTerminal => 5,
        _ => 0,
    }
}

#[test]
fn two_claims_are_live_where_the_first_has_neither_ended_nor_been_settled() {
    let grant = |token, invoked, returned| Grant { token, invoked, returned, lease: 100 };
    // The second grant, when the first one is settled, and whether both were live.
    for (second, settled, both) in [
        (grant(2, 20, 30), None, true),
        (grant(2, 20, 30), Some(31), true),
        (grant(2, 20, 30), Some(25), false),
        (grant(2, 20, 99), None, true),
        (grant(2, 20, 100), None, false),
        (grant(1, 20, 30), None, false),
    ] {
        let settled: Vec<(i64, i64)> = settled.map(|at| (1, at)).into_iter().collect();
        let fate = Fate { grants: vec![grant(1, 0, 10), second.clone()], settled, ..Fate::default() };
        assert_eq!(two_live_claims(&fate).is_some(), both, "{second:?}");
    }
}
