//! Over is for ever: a model of one message in one replay run, whose consumer's retention is shortened and lengthened
//! again meanwhile. Whatever the order of the changes, of two servers that learn of them in their own time, of claims and
//! of the purge: what was settled in the run is never granted in it again.
//!
//! Claims, settlements and the purge are those of the core. A call is one step here: races for one row are the other
//! model's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use idempotency_ledger::domain::{
    Command, Context, Entry, FailureKind, Key, Namespace, Policy, ReplayMode, ReplayRun, Reply, RunMode,
    Settle, Span, Standing, StoreTime, Verdict, decide, is_over, is_over_with_its_run, run_taken_from,
};
use stateright::{Checker, HasDiscoveries, Model, Property};

use super::server::{claim, trimmed};

/// One tick of the store's clock. All servers know of a change within ten seconds, so within a tick.
const HOUR: Span = Span::from_secs(3_600);
const LONG: Span = Span(4 * HOUR.0);
const SHORT: Span = HOUR;
/// Until the purge has taken all of a run that was never shortened: its end, a retention, and the margin.
const TICKS: u8 = 9;
const CHANGES: u8 = 2;
const SERVERS: usize = 2;
const DELIVERIES: usize = 2;

/// By what the store and the servers go. Each seeded bug breaks one rule.
#[derive(Clone, Copy)]
struct Rules {
    /// A shorter retention brings the end of the run nearer, in its own transaction.
    shortens: bool,
    /// It never lies in the past: the purge would take the entries of the run before every server knows of its end.
    from_now_on: bool,
    /// A longer one puts the end off again.
    puts_off: bool,
    /// A run is added under the very epoch under which the retention was read.
    compares_epoch: bool,
    /// Within ten seconds every server goes by a change.
    learns: bool,
}

const RULES: Rules =
    Rules { shortens: true, from_now_on: true, puts_off: false, compares_epoch: true, learns: true };

/// What a server goes by: the retention, and the end of the run, if it knows of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Known {
    retention: Span,
    end: Option<StoreTime>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Delivery {
    #[default]
    Ahead,
    Holds(i64),
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    ticks: u8,
    retention: Span,
    changes: u8,
    epoch: u8,
    /// An operator has looked, to create the run: the retention, and the epoch.
    looked: Option<(Span, u8)>,
    /// Created, ends, closed.
    run: Option<(StoreTime, StoreTime, Option<StoreTime>)>,
    servers: [Known; SERVERS],
    row: Option<Arc<Entry>>,
    deliveries: [Delivery; DELIVERIES],
    /// Its message is done, or failed for good.
    settled: bool,
    granted_again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Tick,
    Change(Span),
    Look,
    Create,
    Close,
    Learn(usize),
    /// A delivery, at a server.
    Claim(usize, usize),
    Complete(usize, usize),
    Fail(usize, usize),
    Purge,
}

/// What a search must come across, or it proves nothing.
const SEEN: [&str; 6] = [
    "shortened with an entry",
    "lengthened after the purge",
    "refused as closed",
    "purged by its own retention",
    "purged with its run",
    "created under the short retention",
];

struct OneRun {
    rules: Rules,
    key: Key,
    seen: AtomicU32,
}

impl World {
    fn now(&self) -> StoreTime {
        StoreTime(1_000_000_000_000 + i64::from(self.ticks) * HOUR.0)
    }

    /// Whether it was raised matters only while somebody is about to create the run.
    fn raise_epoch(&mut self) {
        self.epoch = if self.looked.is_some() { self.epoch + 1 } else { 0 };
    }

    /// As the store has it.
    fn truth(&self) -> Known {
        let end = |(_, ends, closed): (StoreTime, StoreTime, Option<StoreTime>)| {
            let (consumer, name) = ("view".to_owned(), "r".to_owned());
            let (actor, reason, mode) = (String::new(), String::new(), RunMode::Rebuild);
            let (created_at, ends_at, closed_at) = (ends, ends, closed);
            ReplayRun { consumer, name, mode, created_at, ends_at, closed_at, actor, reason }.end()
        };
        Known { retention: self.retention, end: self.run.map(end) }
    }
}

fn policy(known: Known) -> Policy {
    let run = known.end.map_or(Standing::Unknown, |end| Standing::Known { mode: RunMode::Rebuild, end });
    let retention = known.retention;
    let replay = ReplayMode::Rebuild;
    Policy {
        retention,
        failed_retention: SHORT,
        abandoned_retention: SHORT,
        replay,
        run,
        ..Policy::default()
    }
}

impl OneRun {
    fn new(rules: Rules) -> OneRun {
        let key = Key::of(Namespace::new("view", "r"), "shop".into(), "order-1".into());
        OneRun { rules, key, seen: AtomicU32::new(0) }
    }

    fn note(&self, what: &str) {
        let place = SEEN.iter().position(|one| *one == what).unwrap();
        self.seen.fetch_or(1 << place, Ordering::Relaxed);
    }

    fn change(&self, world: &mut World, retention: Span) {
        world.changes += 1;
        world.raise_epoch();
        let now = if self.rules.from_now_on { world.now() } else { StoreTime(0) };
        if let Some((created, ends, _)) = &mut world.run {
            if self.rules.shortens {
                *ends = (*ends).min((*created + retention).max(now));
            }
            if self.rules.puts_off && retention > world.retention {
                *ends = *created + retention;
            }
        }
        if retention < world.retention && world.row.is_some() {
            self.note("shortened with an entry");
        }
        if retention > world.retention && world.settled && world.row.is_none() {
            self.note("lengthened after the purge");
        }
        world.retention = retention;
        // The server that was asked goes by it with the answer.
        world.servers[0] = world.truth();
    }

    fn create(&self, world: &mut World) -> Option<()> {
        let (retention, epoch) = world.looked.take()?;
        if epoch == world.epoch || !self.rules.compares_epoch {
            if retention == SHORT {
                self.note("created under the short retention");
            }
            world.run = Some((world.now(), world.now() + retention, None));
            world.epoch = 0;
            world.servers[0] = world.truth();
        }
        Some(())
    }

    /// A call of a delivery, decided by what the server knows.
    fn call(&self, world: &mut World, number: usize, server: usize, command: &Command) {
        let (policy, now) = (policy(world.servers[server]), world.now());
        let context = Context {
            policy: &policy,
            now,
            token_offset: 0,
            position: 1,
            clock_behind: false,
            clock_before_release: false,
            clock_ahead: false,
        };
        let decision = decide(&self.key, world.row.as_deref(), command, &context);
        world.deliveries[number] = match &decision.answer {
            Ok(Reply::Verdict(Verdict::Acquired { token, .. })) => {
                world.granted_again |= world.settled;
                Delivery::Holds(*token)
            }
            Err(rejection) if rejection.reason.is_of_a_run() => {
                self.note("refused as closed");
                // The broker delivers it again.
                world.deliveries[number]
            }
            Ok(_) | Err(_) => Delivery::Gone,
        };
        if let Some(row) = decision.write {
            world.settled |= matches!(command, Command::Settle(..));
            world.row = Some(Arc::new(trimmed(row)));
        }
    }

    /// By which of its rules the purge takes the row: its own retention, or the end of its run.
    fn due(&self, world: &World) -> Option<&'static str> {
        let (row, now) = (world.row.as_deref()?, world.now());
        let known = world.truth();
        let from = run_taken_from(known.end?, known.retention);
        if is_over(row, &policy(known), now, now.0) {
            Some("purged by its own retention")
        } else {
            is_over_with_its_run(row, from, now, now.0).then_some("purged with its run")
        }
    }
}

impl Model for OneRun {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let known = Known { retention: LONG, end: None };
        vec![World {
            ticks: 0,
            retention: LONG,
            changes: 0,
            epoch: 0,
            looked: None,
            run: None,
            servers: [known; SERVERS],
            row: None,
            deliveries: Default::default(),
            settled: false,
            granted_again: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let ignorant = |server: &usize| world.servers[*server] != world.truth();
        if world.ticks < TICKS && (!self.rules.learns || !(0..SERVERS).any(|server| ignorant(&server))) {
            actions.push(Action::Tick);
        }
        if world.changes < CHANGES {
            actions.push(Action::Change(if world.retention == LONG { SHORT } else { LONG }));
        }
        match world.run {
            None if world.looked.is_none() => actions.push(Action::Look),
            None => actions.push(Action::Create),
            Some((.., None)) => actions.push(Action::Close),
            Some(_) => {}
        }
        actions.extend((0..SERVERS).filter(ignorant).map(Action::Learn));
        for (number, delivery) in world.deliveries.iter().enumerate() {
            // They are alike: the first one that is ahead stands for all.
            let alike = world.deliveries[..number].contains(&Delivery::Ahead);
            for server in 0..SERVERS {
                match delivery {
                    Delivery::Ahead if !alike => actions.push(Action::Claim(number, server)),
                    Delivery::Holds(_) => {
                        actions.push(Action::Complete(number, server));
                        actions.push(Action::Fail(number, server));
                    }
                    Delivery::Ahead | Delivery::Gone => {}
                }
            }
        }
        if self.due(world).is_some() {
            actions.push(Action::Purge);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Tick => world.ticks += 1,
            Action::Change(retention) => self.change(&mut world, retention),
            Action::Look => world.looked = Some((world.retention, world.epoch)),
            Action::Create => self.create(&mut world)?,
            Action::Close => {
                let now = world.now();
                world.run.as_mut()?.2 = Some(now);
                world.servers[0] = world.truth();
            }
            Action::Learn(server) => world.servers[server] = world.truth(),
            Action::Claim(number, server) => {
                self.call(&mut world, number, server, &Command::Claim(claim(number)));
            }
            Action::Complete(number, server) => {
                let Delivery::Holds(token) = world.deliveries[number] else { return None };
                let settle = Settle::Complete { result: Default::default(), left_out: false };
                self.call(&mut world, number, server, &Command::Settle(token, settle));
            }
            Action::Fail(number, server) => {
                let Delivery::Holds(token) = world.deliveries[number] else { return None };
                let settle =
                    Settle::Fail { kind: FailureKind::Terminal, error: String::new(), retry_after: None };
                self.call(&mut world, number, server, &Command::Settle(token, settle));
            }
            Action::Purge => {
                self.note(self.due(&world)?);
                world.row = None;
            }
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<OneRun>> {
        vec![Property::always(
            "what was settled in a run is never granted in it again",
            |_, world: &World| !world.granted_again,
        )]
    }
}

/// How many states there are, what they came across, and a way to a broken promise, if there is one.
fn search(rules: Rules) -> (usize, u32, Option<String>) {
    let checker = OneRun::new(rules).checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let broken = checker.discoveries().into_values().next().map(|path| {
        let steps: Vec<String> = path.into_actions().iter().map(|action| format!("{action:?}")).collect();
        steps.join(", ")
    });
    (checker.unique_state_count(), checker.model().seen.load(Ordering::Relaxed), broken)
}

#[test]
fn over_is_for_ever() {
    let (states, seen, broken) = search(RULES);
    assert_eq!(broken, None, "after {states} states");
    let missed: Vec<&str> =
        SEEN.iter().enumerate().filter(|(place, _)| seen & 1 << place == 0).map(|(_, what)| *what).collect();
    assert!(missed.is_empty(), "{missed:?} never happened in {states} states");
    println!("{states} states");
}

#[test]
fn each_seeded_bug_grants_again() {
    for (bug, rules) in [
        ("a shorter retention leaves the run open", Rules { shortens: false, ..RULES }),
        ("a run has ended in the past", Rules { from_now_on: false, ..RULES }),
        ("a longer retention puts the end off", Rules { puts_off: true, ..RULES }),
        (
            "a run is added with a retention that was in force before",
            Rules { compares_epoch: false, ..RULES },
        ),
        ("a server never learns that the end came nearer", Rules { learns: false, ..RULES }),
    ] {
        let (states, _, broken) = search(rules);
        let steps = broken.unwrap_or_else(|| panic!("{bug}: nothing is granted again in {states} states"));
        println!("{bug}: {steps}");
    }
}
