//! SIGSTOP: servers and all of Postgres stand still for 0.5 to 5 leases, and go on as if nothing had
//! happened.

use std::time::Duration;

use super::replicas::Replica;
use super::world::LEASE;
use crate::harness::postgres::Cluster;
use crate::harness::random::Random;
use crate::harness::signals::signal;
use crate::proof::run::Run;

pub(crate) async fn pause(
    run: &mut Run,
    random: &mut Random,
    replicas: &[Replica],
    cluster: &Cluster,
) -> String {
    let (mut servers, mut databases) = (0, 0);
    for number in 0..run.size {
        tokio::time::sleep(Duration::from_millis(100 + random.below(300))).await;
        let pids = if random.percent(60) {
            servers += 1;
            let server = vec![replicas[random.below(replicas.len() as u64) as usize].pid()];
            signal("STOP", &server);
            server
        } else {
            databases += 1;
            cluster.pause()
        };
        tokio::time::sleep(LEASE * (50 + random.below(450) as u32) / 100).await;
        signal("CONT", &pids);
        run.progress(number + 1, "pauses");
    }
    format!("{servers} servers and {databases} times Postgres stopped for 0.5 to 5 leases")
}
