//! Servers and Postgres die while a call is on its way to them, and come back.

use std::time::Duration;

use super::harm::POINTS;
use super::replicas::Replica;
use crate::harness::postgres::Cluster;
use crate::harness::random::Random;
use crate::harness::signals::signal;

/// In so many of a hundred calls somebody dies.
const PERCENT: u64 = 35;

pub(crate) struct Deaths<'a> {
    pub(crate) replicas: &'a mut [Replica],
    pub(crate) cluster: &'a mut Cluster,
    at_points: u64,
    at_random: u64,
    of_postgres: u64,
}

impl Deaths<'_> {
    pub(crate) fn new<'a>(replicas: &'a mut [Replica], cluster: &'a mut Cluster) -> Deaths<'a> {
        Deaths { replicas, cluster, at_points: 0, at_random: 0, of_postgres: 0 }
    }

    /// Does the work, which asks this replica before all; perhaps somebody dies meanwhile. Whoever did is
    /// there again in the end.
    pub(crate) async fn amid<T>(
        &mut self,
        replica: usize,
        random: &mut Random,
        work: impl AsyncFnOnce() -> T,
    ) -> T {
        let death = if random.percent(PERCENT) { random.below(10) } else { 10 };
        let later = Duration::from_micros(random.below(25_000));
        let kill = async |name: &str, pid: u32| {
            tokio::time::sleep(later).await;
            signal(name, &[pid]);
        };
        let done = match death {
            0..4 => {
                // Those around a statement: an operator's change passes no other.
                let point = POINTS[1 + random.below(3) as usize];
                self.replicas[replica].kill();
                self.replicas[replica].start(Some(&format!("{point}:{}", 1 + random.below(2))));
                self.replicas[replica].listens().await;
                work().await
            }
            4..7 => {
                let pid = self.replicas[replica].pid();
                self.at_random += 1;
                tokio::join!(work(), kill("KILL", pid)).0
            }
            7..10 => {
                let pid = self.cluster.pids()[0];
                self.of_postgres += 1;
                // An immediate stop: it ends as by a crash.
                let done = tokio::join!(work(), kill("QUIT", pid)).0;
                self.cluster.crash();
                tokio::task::block_in_place(|| self.cluster.run());
                done
            }
            _ => work().await,
        };
        self.bury(false).await;
        done
    }

    /// Starts the dead again, or all.
    pub(crate) async fn bury(&mut self, all: bool) {
        for replica in self.replicas.iter_mut() {
            let alive = replica.is_alive();
            if !alive {
                self.at_points += 1;
            }
            if !alive || all {
                replica.kill();
                replica.start(None);
                replica.listens().await;
            }
        }
    }

    pub(crate) fn told(&self) -> String {
        format!(
            "{} servers killed at named points, {} at random, {} crashes of Postgres",
            self.at_points.saturating_sub(self.at_random),
            self.at_random,
            self.of_postgres
        )
    }
}
