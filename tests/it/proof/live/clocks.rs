//! The store's clock jumps under load, forward and back, by up to an hour. A jump back ends when the clock has caught
//! up, or when an operator raises the token offset: until then nothing is granted, and guard, metric and log say so.

use std::time::{Duration, Instant};

use super::operator;
use super::scene::{Live, Shape};
use super::world::now;
use crate::harness::postgres::Cluster;
use crate::proof::history::{Call, Outcome, Shift};
use crate::proof::run::Run;

const SECOND: i64 = 1_000_000;
const JUMP_MAX: i64 = 3_600 * SECOND;
/// A jump back by more than this is behind every mark, whatever a slow machine has not written down.
const SURELY_BEHIND: i64 = 10 * SECOND;
/// Within this a server knows of a jump, and goes on after its end, on a slow machine too.
const WITHIN: Duration = Duration::from_secs(30);
const BEHIND: &str = "idempotency_ledger_store_clock_behind_seconds";
const LOGGED: &str = "the store's clock is behind its mark";

/// The clock of the cluster, and what was seen of it.
struct Jumps {
    /// By how much it is ahead of the machine's, now and at the most so far.
    ahead: i64,
    furthest: i64,
    forward: u64,
    back: u64,
    caught_up: u64,
    raised: u64,
    /// The longest time without a grant after a jump forward, and after the end of one back.
    longest: (Duration, Duration),
    /// Between the instants of each pair, nothing may have been granted.
    guarded: Vec<(i64, i64)>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jumping_clock_breaks_no_promise() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start_with_a_clock("")).await.unwrap();
    let url = cluster.url("postgres");
    let mut live = Live::over(Run::new("clocks", 5), cluster, &url, Shape::observed(16)).await;
    let mut jumps = Jumps {
        ahead: 0,
        furthest: 0,
        forward: 0,
        back: 0,
        caught_up: 0,
        raised: 0,
        longest: (Duration::ZERO, Duration::ZERO),
        guarded: Vec::new(),
    };
    live.grants_again(WITHIN).await;
    for number in 0..live.run.size {
        // Each server has shown the clock as it is now, and its heartbeat has written it down.
        let rest = 1_200 + live.random.below(800);
        tokio::time::sleep(Duration::from_millis(rest)).await;
        // As often by seconds as by minutes, and one of each kind in the smallest run.
        let size = (100_000 << live.random.below(16)) + live.random.below(100_000) as i64;
        let by = if number < 2 { JUMP_MAX } else { size.min(JUMP_MAX) };
        if if number < 2 { number == 0 } else { live.random.percent(40) } {
            forward(&live, &mut jumps, by).await;
        } else {
            back(&mut live, &mut jumps, by).await;
        }
        live.run.progress(number + 1, "jumps");
    }
    // Claims that were granted by a later clock must come to their ends.
    if jumps.furthest > jumps.ahead {
        let furthest = jumps.furthest;
        set(&live, &mut jumps, furthest);
    }
    judge_guard(&live, &jumps);
    let told = format!(
        "{} jumps forward, {} back, {} of these ended by catching up, {} by a raised offset; at most {} ms without a \
         grant after a jump forward, {} ms after the end of one back",
        jumps.forward,
        jumps.back,
        jumps.caught_up,
        jumps.raised,
        jumps.longest.0.as_millis(),
        jumps.longest.1.as_millis()
    );
    live.end(told).await;
}

fn set(live: &Live, jumps: &mut Jumps, ahead: i64) {
    let invoked = now();
    live.cluster.set_clock(ahead);
    live.world.shifts.lock().unwrap().push(Shift { invoked, returned: now(), ahead });
    jumps.ahead = ahead;
    jumps.furthest = jumps.furthest.max(ahead);
}

async fn forward(live: &Live, jumps: &mut Jumps, by: i64) {
    let ahead = jumps.ahead + by;
    set(live, jumps, ahead);
    jumps.longest.0 = jumps.longest.0.max(live.grants_again(WITHIN).await);
    jumps.forward += 1;
}

async fn back(live: &mut Live, jumps: &mut Jumps, by: i64) {
    let logged: Vec<usize> = live.replicas.iter().map(|replica| times_logged(&replica.log())).collect();
    let before = jumps.ahead;
    set(live, jumps, before - by);
    let jumped = now();
    if by > SURELY_BEHIND {
        for (replica, logged) in live.replicas.iter().zip(logged) {
            let since = Instant::now();
            while replica.metric(BEHIND, "").await == 0.0 || times_logged(&replica.log()) == logged {
                if since.elapsed() > WITHIN {
                    live.run.fail(format!("a jump back by {by} µs: no metric or no line of the log"), &[]);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    let stays = live.random.below(1_000);
    tokio::time::sleep(Duration::from_millis(stays)).await;
    let ends = now();
    if live.random.percent(50) {
        set(live, jumps, before);
        jumps.caught_up += 1;
    } else {
        let replica = live.random.below(3) as usize;
        operator::raise_by_rpc(&live.world, replica, Duration::from_secs(2)).await;
        jumps.raised += 1;
    }
    if by > SURELY_BEHIND {
        jumps.guarded.push((jumped, ends));
    }
    jumps.longest.1 = jumps.longest.1.max(live.grants_again(WITHIN).await);
    for replica in &live.replicas {
        let since = Instant::now();
        while replica.metric(BEHIND, "").await != 0.0 {
            if since.elapsed() > WITHIN {
                live.run.fail("the clock is not behind any more: the metric says it is", &[]);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    jumps.back += 1;
}

fn times_logged(log: &str) -> usize {
    log.lines().filter(|line| line.contains(LOGGED)).count()
}

/// While the clock was behind, no claim was granted anew.
fn judge_guard(live: &Live, jumps: &Jumps) {
    for key in live.world.keys() {
        for event in key.events.lock().unwrap().iter() {
            let granted = matches!(
                (event.call, event.outcome),
                (Call::Claim { .. }, Outcome::Acquired { replayed: false, .. })
            );
            let within = |(from, to): &&(i64, i64)| *from < event.invoked && event.returned < *to;
            if let Some((from, to)) = jumps.guarded.iter().find(within).filter(|_| granted) {
                live.run
                    .fail(format!("granted while the clock was behind, from {from} to {to}: {event}"), &[]);
            }
        }
    }
}
