//! The end of a run: every key is brought to its end, and every record is judged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::Row as _;

use super::client::Client;
use super::marks;
use super::policies_judged::{self, steady};
use super::scene::HISTORY;
use super::world::{GRACE, KeyLog, LEASE, World};
use crate::harness::postgres::Cluster;
use crate::proof::history::{self, Call, Event, Loss, Outcome, Refusal};
use crate::proof::run::Run;

/// How many clients end the keys.
const FINISHERS: u64 = 8;
/// Their numbers begin here.
const FINISHER: u64 = 1_000_000;
/// A key that cannot be had for so long is stranded.
const STRANDED: Duration = Duration::from_secs(20);

/// Ends every key, judges every history; a summary of what was seen.
pub(crate) async fn judge(run: &Run, world: &Arc<World>, cluster: &Cluster) -> String {
    let keys = world.take_keys();
    let finishers: Vec<_> = (0..FINISHERS)
        .map(|number| {
            let client = Client::new(world, FINISHER + number);
            let share: Vec<_> =
                keys.iter().skip(number as usize).step_by(FINISHERS as usize).cloned().collect();
            tokio::spawn(finish(client, share))
        })
        .collect();
    for finisher in finishers {
        if let Err(problem) = finisher.await.unwrap() {
            run.fail(problem, &[]);
        }
    }
    if let Some(problem) = world.problems.lock().unwrap().first() {
        run.fail(problem, &[]);
    }
    let changed = match policies_judged::judge(world).await {
        Ok(changed) => changed,
        Err(problem) => run.fail(problem, &[]),
    };
    let (raises, shifts) = (world.raises.lock().unwrap().clone(), world.shifts.lock().unwrap().clone());
    let losses = world.losses.lock().unwrap().clone();
    let mut events = 0;
    for key in &keys {
        let history = key.events.lock().unwrap().clone();
        events += history.len();
        let mut in_force = changed.get(key.consumer).cloned().unwrap_or_else(|| steady(key.consumer));
        if !key.run.is_empty() {
            in_force = world.replays.of(&key.run, &in_force, world.everywhere);
        }
        in_force.raises.clone_from(&raises);
        in_force.shifts.clone_from(&shifts);
        if !losses.is_empty() && history::check(&history, &in_force).is_err() {
            world.count("keys that only a loss explains");
        }
        in_force.losses.clone_from(&losses);
        let mut explained = history::check(&history, &in_force);
        // A connection to the database may have ended.
        if explained.is_err()
            && !world.failures.lock().unwrap().is_empty()
            && history::check_with_second_tries(&history, &in_force).is_ok()
        {
            world.count("keys that only a server's second try explains");
            explained = Ok(());
        }
        let explained = explained.and_then(|()| effects_are_fenced(key, &losses));
        if let Err(problem) = explained {
            let row = dump(cluster, key).await;
            run.fail(
                format!("{} of {} in run {:?}: {problem}", key.id, key.consumer, key.run),
                &[("row", row)],
            );
        }
    }
    let marks = match marks::judge(cluster, &keys).await {
        Ok(marks) => marks,
        Err(problem) => run.fail(problem, &[]),
    };
    // A mark may be lost with the connection that carries it: here nothing does harm.
    if run.suite == HISTORY && marks.missing > 0 {
        run.fail(format!("{} superseded Completes have left no mark", marks.missing), &[]);
    }
    format!(
        "{events} calls on {} keys, {} superseded Completes marked, {}",
        keys.len(),
        marks.marked,
        world.counted()
    )
}

/// Claims what has no end yet, and completes it.
async fn finish(mut client: Client, keys: Vec<Arc<KeyLog>>) -> Result<(), String> {
    for key in keys {
        let started = Instant::now();
        let mut claim = client.fresh_claim();
        while !ended(&key) {
            if started.elapsed() > STRANDED {
                return Err(format!("{} is stranded", key.id));
            }
            key.reopen();
            match client.surely(&key, Call::Claim { claim }).await {
                Some(Outcome::Acquired { token, .. }) => {
                    client.surely(&key, Call::Complete { token }).await;
                }
                Some(Outcome::InProgress) => tokio::time::sleep(LEASE + GRACE).await,
                Some(Outcome::Backoff | Outcome::Refused(_)) => tokio::time::sleep(GRACE).await,
                _ => {}
            }
            claim = client.fresh_claim();
        }
    }
    Ok(())
}

/// A finisher was told that the message is done, or given up, or waits for a person, or that its run is closed.
fn ended(key: &KeyLog) -> bool {
    key.events.lock().unwrap().iter().filter(|event| event.client >= FINISHER).any(|event| {
        matches!(
            (event.call, event.outcome),
            (
                _,
                Outcome::Completed | Outcome::Failed | Outcome::Parked | Outcome::Refused(Refusal::RunClosed)
            ) | (Call::Complete { .. }, Outcome::Settled { .. })
        )
    })
}

/// Once a claim was completed, no later claim had its effect before that. Where the later claim may have been lost, the
/// earlier one is the latest again: such an effect cannot be fenced off.
fn effects_are_fenced(key: &KeyLog, losses: &[Loss]) -> Result<(), String> {
    let (effects, events) = (key.effects.lock().unwrap(), key.events.lock().unwrap());
    let was_lost = |token: i64| {
        let granted =
            |event: &&Event| matches!(event.outcome, Outcome::Acquired { token: one, .. } if one == token);
        events.iter().filter(granted).any(|event| losses.iter().any(|loss| loss.concerns(event)))
    };
    for event in events.iter() {
        if let (Call::Complete { token }, Outcome::Settled { .. }) = (event.call, event.outcome)
            && let Some((later, _)) =
                effects.iter().find(|(other, at)| *other > token && *at < event.invoked && !was_lost(*other))
        {
            return Err(format!("the effect of {later} came before the completion of {token}: {event}"));
        }
    }
    Ok(())
}

async fn dump(cluster: &Cluster, key: &KeyLog) -> String {
    let mut connection = cluster.connect("postgres").await;
    let query = sqlx::query("SELECT row_to_json(e)::text AS row FROM ledger.entries e WHERE id = $1");
    let rows = query.bind(key.id.clone()).fetch_all(&mut connection).await.unwrap();
    rows.iter().map(|row| row.get::<String, _>("row")).collect::<Vec<_>>().join("\n")
}
