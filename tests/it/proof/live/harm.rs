//! Death: of servers, at random and at named points, of Postgres, of its backends.

use std::time::Duration;

use super::replicas::Replica;
use crate::harness::postgres::Cluster;
use crate::harness::random::Random;
use crate::proof::run::Run;

/// The named points at which a server built with the feature `crash-points` kills itself.
pub(crate) const POINTS: [&str; 5] =
    ["after_seal", "before_send", "after_send", "after_commit", "before_answer"];

/// Kills servers until it was done often enough; how often at which point.
pub(crate) async fn kill_servers(run: &mut Run, random: &mut Random, replicas: &mut [Replica]) -> String {
    let mut at_random = 0;
    let mut at_points = [0_u64; POINTS.len()];
    let mut killed = 0;
    while killed < run.size {
        let replica = &mut replicas[random.below(3) as usize];
        if cfg!(feature = "crash-points") && random.percent(60) {
            let point = random.below(POINTS.len() as u64) as usize;
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
