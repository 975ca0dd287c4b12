//! Tens of thousands of policies: what they cost at the start, and while nothing changes.

use std::time::{Duration, Instant};

use idempotency_ledger::proto;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use tonic::transport::Endpoint;

use super::replicas::Replica;
use crate::harness::postgres::Cluster;
use crate::harness::server::migrate_postgres;

const POLICIES: usize = 30_000;
/// How often it is started.
const STARTS: usize = 3;
/// How much more CPU time a start may take with them: other tests run beside this one, and have the rest.
const MORE_MAX: f64 = 2.0;
/// How much longer it may take, however busy the machine is.
const LONGER_MAX: Duration = Duration::from_secs(10);
/// Over how long the CPU time of a replica is measured.
const MEASURED: Duration = Duration::from_secs(10);
/// How much of a core it may use meanwhile.
const SHARE_MAX: f64 = 0.01;

/// As SetPolicy writes them.
const FILL: &str = r#"
-- The purge has looked at them once today.
INSERT INTO ledger.consumers (no, name, retention, purge_due)
SELECT 1000 + n, 'consumer-' || n, 604800000000, ledger.clock() + 86400000000 FROM generate_series(1, $1) n;
INSERT INTO ledger.policies (consumer, version, policy, deleted, created_at, actor, reason)
SELECT 1000 + n, 1, '{"lease":60000000,"max_attempts":3,"disabled":true}',
       false, 0, 'operator', 'many' FROM generate_series(1, $1) n;
UPDATE ledger.meta SET policy_epoch = policy_epoch + 1;
"#;

/// How long a replica takes to its first connection; it goes on running.
async fn started(replica: &mut Replica) -> Duration {
    let since = Instant::now();
    replica.start(None);
    replica.listens().await;
    since.elapsed()
}

/// The CPU time that a process has used, in hundredths of a second.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name, in parentheses, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// The share of a core that the replica uses while nobody asks it anything.
async fn share(replica: &Replica) -> f64 {
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = ticks(replica.pid());
    tokio::time::sleep(MEASURED).await;
    (ticks(replica.pid()) - before) as f64 / 100.0 / MEASURED.as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_policies_cost_little() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start("fsync = off")).await.unwrap();
    migrate_postgres(&cluster.url("postgres")).await;
    let folder = tempfile::tempdir().unwrap();
    let mut replica = Replica::new(folder.path(), &cluster.url("postgres"));
    let none = started(&mut replica).await;
    replica.kill();
    cluster.execute("postgres", &FILL.replace("$1", &POLICIES.to_string())).await;
    // The best of some starts: other tests run beside this one.
    let mut many = started(&mut replica).await;
    for _ in 1..STARTS {
        replica.kill();
        many = many.min(started(&mut replica).await);
    }
    let longer = many.saturating_sub(none);
    let more = ticks(replica.pid()) as f64 / 100.0;
    let share = share(&replica).await;
    println!(
        "{POLICIES} policies: {:.2} s longer at the start, {more:.2} s of CPU time; {:.1} % of a core while nothing \
         changes",
        longer.as_secs_f64(),
        share * 100.0
    );
    // They are in force, and so is a change of one of them.
    let channel =
        Endpoint::from_shared(format!("http://{}", replica.address)).unwrap().connect().await.unwrap();
    let mut admin = AdminServiceClient::new(channel);
    let request = proto::SetPolicyRequest {
        consumer: "consumer-29999".into(),
        request_id: "one".into(),
        expected_version: 1,
        reason: "the provider is back".into(),
        policy: Some(proto::Policy { disabled: Some(false), ..Default::default() }),
        ..Default::default()
    };
    let now = admin.set_policy(request).await.unwrap().into_inner().policy.unwrap().policy.unwrap();
    assert_eq!((now.disabled, now.lease.unwrap().seconds), (Some(false), 60));
    assert!(more <= MORE_MAX, "{more} s of CPU time at the start");
    assert!(longer <= LONGER_MAX, "{many:?} with {POLICIES} policies, {none:?} without");
    assert!(share <= SHARE_MAX, "{:.1} % of a core", share * 100.0);
}
