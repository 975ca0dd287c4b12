//! Death: of servers, at random and at named points, of Postgres, of its backends.

use std::time::Duration;

use super::replicas::Replica;
use crate::harness::postgres::Cluster;
use crate::harness::random::Random;
use crate::proof::run::Run;

/// The named points at which a server built with the feature `crash-points` kills itself.
pub(crate) const POINTS: [&str; 5] =
    ["after_seal", "before_send", "after_send", "after_commit", "before_answer"];

/// Kills servers until it was done often enough, and at each point; how often at which.
pub(crate) async fn kill_servers(run: &mut Run, random: &mut Random, replicas: &mut [Replica]) -> String {
    let mut at_random = 0;
    let mut at_points = [0_u64; POINTS.len()];
    let (mut killed, mut tries) = (0, 0);
    let missing = |at_points: &[u64]| cfg!(feature = "crash-points") && at_points.contains(&0);
    while killed < run.size || missing(&at_points) {
        tries += 1;
        if tries > 5 * run.size.max(20) {
            run.fail(format!("not each of {POINTS:?} ends a server: {at_points:?} of {tries} tries"), &[]);
        }
        let replica = &mut replicas[random.below(3) as usize];
        if cfg!(feature = "crash-points") && random.percent(60) {
            // One of those at which the fewest servers have ended.
            let fewest = at_points.iter().min().copied().unwrap_or_default();
            let rare: Vec<usize> = (0..POINTS.len()).filter(|point| at_points[*point] == fewest).collect();
            let point = rare[random.below(rare.len() as u64) as usize];
            let passes = 1 + random.below(60);
            replica.kill();
            replica.start(Some(&format!("{}:{passes}", POINTS[point])));
            if replica.dies(Duration::from_secs(3)).await {
                at_points[point] += 1;
                killed += 1;
            }
        } else {
            tokio::time::sleep(Duration::from_millis(20 + random.below(150))).await;
            at_random += 1;
            killed += 1;
        }
        replica.kill();
        replica.start(None);
        run.progress(killed, "kills");
    }
    let points: Vec<String> =
        POINTS.iter().zip(at_points).map(|(point, times)| format!("{times} {point}")).collect();
    format!("{at_random} kills at random, {}", points.join(", "))
}

/// Ends backends every 20 ms, a hundred of them for each crash of the whole of Postgres.
pub(crate) async fn crash_postgres(run: &mut Run, cluster: &mut Cluster) -> String {
    const PER_CRASH: u64 = 100;
    let mut terminated = 0;
    for crash in 0..run.size {
        let mut admin = cluster.connect("postgres").await;
        while terminated < (crash + 1) * PER_CRASH {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let ended = sqlx::query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE application_name LIKE 'idempotency-ledger%' ORDER BY random() LIMIT 2",
            );
            terminated += ended.fetch_all(&mut admin).await.unwrap().len() as u64;
        }
        drop(admin);
        cluster.crash();
        tokio::task::block_in_place(|| cluster.run());
        run.progress(crash + 1, format!("crashes, {terminated} backends terminated"));
    }
    format!("{} crashes of Postgres, {terminated} backends terminated", run.size)
}
