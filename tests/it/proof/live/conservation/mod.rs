//! Conservation: messages are stored and acknowledged while servers are killed at named points of the inbox, Postgres crashes, and
//! connections are cut. Every acknowledged message ends, and none is handed to two live claims. Plain claims go on next to them.

mod account;
mod producer;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sqlx::Row as _;

use self::account::Account;
use super::inbox;
use super::proxy::Faults;
use super::scene::Live;
use super::world::{KEPT, STEADY};
use crate::proof::run::Run;

/// After a store, before and after the commit of a handout, before an answer, and while a statement is carried out.
pub(super) const POINTS: [&str; 5] =
    ["after_stored", "before_hand_out_commit", "before_handed_out", "before_answer", "after_send"];
/// Maximum number of messages between two faults, and minimum number of faults.
const MESSAGES_OF_A_FAULT: u64 = 200;
const FAULTS_MIN: u64 = 12;
/// How long connections are cut.
const CUT_FOR: Duration = Duration::from_millis(300);
/// A server that does not come to the point within this time is killed all the same.
const POINT_WITHIN: Duration = Duration::from_secs(2);
/// Messages are stranded where none has ended for so long after the last fault.
const STRANDED: Duration = Duration::from_secs(60);
/// How long the next fault waits for the messages of the one before.
const KEEPS_UP: Duration = Duration::from_secs(3);
const PRODUCERS: u64 = 3;
const WORKERS: u64 = 5;
const PLAIN: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_message_ends_and_has_one_live_claim() {
    let faults = Arc::new(Faults::default());
    faults.calm.store(true, Ordering::Relaxed);
    let mut live = Live::behind(Run::new("conservation", 1_000), PLAIN, STEADY, Some(&faults)).await;
    inbox::switch_on(&live.world, KEPT).await;
    let account = Arc::new(Account::new(usize::try_from(live.run.size).unwrap()));
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|number| tokio::spawn(producer::work(Arc::clone(&live.world), Arc::clone(&account), number)))
        .collect();
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| tokio::spawn(worker::work(Arc::clone(&live.world), Arc::clone(&account), number)))
        .collect();
    let harm = harm(&mut live, &faults, &account).await;
    for producer in producers {
        producer.await.unwrap();
    }
    let states = ended(&live, &account).await;
    account.stop();
    for worker in workers {
        worker.await.unwrap();
    }
    if let Err(problem) = account.judge(&states) {
        live.run.fail(problem, &[]);
    }
    let counted = account.counted();
    live.end(format!("{counted}; {harm}")).await;
}

/// Kills at each point, crashes and cuts in turn, each with a share of the messages.
async fn harm(live: &mut Live, faults: &Faults, account: &Account) -> String {
    let count = FAULTS_MIN.max(live.run.size.div_ceil(MESSAGES_OF_A_FAULT));
    let (mut at_points, mut crashes, mut missed) = ([0_u64; POINTS.len()], 0, 0);
    for number in 0..count {
        let (before, since) = (live.run.size * number / count, Instant::now());
        while (account.acknowledged() as u64) < before && since.elapsed() < KEEPS_UP {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let share = live.run.size * (number + 1) / count;
        match number % 8 {
            6 => {
                account.allow(share);
                live.cluster.crash();
                tokio::task::block_in_place(|| live.cluster.run());
                crashes += 1;
            }
            7 => {
                account.allow(share);
                faults.calm.store(false, Ordering::Relaxed);
                tokio::time::sleep(CUT_FOR).await;
                faults.calm.store(true, Ordering::Relaxed);
            }
            _ => {
                // One of those at which the fewest servers have ended.
                let fewest = at_points.iter().min().copied().unwrap_or_default();
                let point = at_points.iter().position(|times| *times == fewest).unwrap_or_default();
                let passes = 1 + live.random.below(3);
                let replica = &mut live.replicas[live.random.below(3) as usize];
                replica.kill();
                replica.start(Some(&format!("{}:{passes}", POINTS[point])));
                // While it starts, the others would serve the whole share.
                replica.listens_unless_it_ends().await;
                account.allow(share);
                let reached = replica.dies(POINT_WITHIN).await;
                *(if reached { &mut at_points[point] } else { &mut missed }) += 1;
                replica.kill();
                replica.start(None);
                replica.listens().await;
            }
        }
        live.run.progress(account.acknowledged() as u64, format!("{} faults", number + 1));
    }
    if cfg!(feature = "crash-points") && at_points.contains(&0) {
        live.run.fail(format!("not each of {POINTS:?} has ended a server: {at_points:?}"), &[]);
    }
    let points: Vec<String> =
        POINTS.iter().zip(at_points).map(|(point, times)| format!("{times} kills {point}")).collect();
    let cuts = faults.cuts.load(Ordering::Relaxed);
    format!(
        "{}, {missed} at random, {crashes} crashes of Postgres, {cuts} connections cut",
        points.join(", ")
    )
}

/// The state of each message, once all have ended.
async fn ended(live: &Live, account: &Account) -> Vec<(String, i64)> {
    let (mut since, mut fewest) = (Instant::now(), usize::MAX);
    loop {
        let mut connection = live.cluster.connect("postgres").await;
        let query = "SELECT e.id, e.state::bigint AS state FROM ledger.entries e
            JOIN ledger.consumers n ON n.no = e.consumer WHERE n.name = $1";
        let rows = sqlx::query(query).bind(KEPT).fetch_all(&mut connection).await.unwrap();
        let states: Vec<(String, i64)> = rows.iter().map(|row| (row.get("id"), row.get("state"))).collect();
        match account.open(&states) {
            None => return states,
            Some(open) if open.count < fewest => (since, fewest) = (Instant::now(), open.count),
            Some(open) if since.elapsed() > STRANDED => {
                live.run.fail(format!("stranded: {}", open.shown), &[])
            }
            Some(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
