//! A standby that does not answer: commits wait for it, and their sessions are given up.

use std::sync::Arc;

use super::{Event, Scene, Series, all_happen, events, until_shown};
use crate::harness::details::claim;
use crate::harness::postgres::Cluster;
use crate::harness::server::{Served, Setup, migrate_postgres, postgres_store};
use crate::observe::parsed;

pub(super) struct Replicated {
    cluster: Cluster,
    served: Served,
    calls: Vec<tokio::task::JoinHandle<()>>,
}

impl Scene for Replicated {
    async fn series(&self) -> Series {
        parsed(&self.served.scraped())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_move_with_commits_that_wait_for_a_standby() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start("fsync = off")).await.unwrap();
    let url = cluster.url("postgres");
    migrate_postgres(&url).await;
    let served = Served::start(Arc::new(postgres_store(&url)), Setup::default()).await;
    let mut scene = Replicated { cluster, served, calls: Vec::new() };
    until_shown(&scene, "store_ready").await;
    all_happen(&mut scene, EVENTS).await;
    for call in scene.calls {
        call.await.unwrap();
    }
    scene.served.stop().await;
}

pub(super) const EVENTS: &[Event<Replicated>] = &[
    Event {
        what: "a standby is waited for that is not there",
        happens: waits_for_a_standby,
        rises: &["store_backends_left_behind"],
        falls: &["store_ready"],
    },
    Event {
        what: "it is not waited for any more",
        happens: waits_for_none,
        rises: &["store_ready"],
        falls: &["store_backends_left_behind"],
    },
];

events! {
    waits_for_a_standby(scene: Replicated) {
        scene.cluster.execute("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'away'").await;
        scene.cluster.reload().await;
        for number in 0..4 {
            let mut client = scene.served.client.clone();
            let request = claim("c", &number.to_string());
            scene.calls.push(tokio::spawn(async move { drop(client.claim(request).await) }));
        }
    }

    waits_for_none(scene: Replicated) {
        scene.cluster.execute("postgres", "ALTER SYSTEM RESET synchronous_standby_names").await;
        scene.cluster.reload().await;
    }
}
