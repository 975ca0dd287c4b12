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
/// How much more of a core it may use meanwhile than a replica without policies. CPU time for the same work grows with the load of the
/// machine, of both replicas alike. Measured: 2.8 %, and 2.2 % without policies; when each heartbeat walked over all policies 7.4 to
/// 11.4 %, and 2.4 to 3.3 %.
const SHARE_MAX: f64 = 0.02;

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

/// The share of a core that each of these replicas uses while no client calls them.
async fn shares(replicas: [&Replica; 2]) -> [f64; 2] {
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = replicas.map(|replica| ticks(replica.pid()));
    tokio::time::sleep(MEASURED).await;
    let used = |(replica, before): (&Replica, u64)| ticks(replica.pid()) - before;
    let [many, none] = [(replicas[0], before[0]), (replicas[1], before[1])].map(used);
    [many, none].map(|ticks| ticks as f64 / 100.0 / MEASURED.as_secs_f64())
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
    cluster.execute("postgres", "CREATE DATABASE without").await;
    migrate_postgres(&cluster.url("without")).await;
    let mut without = Replica::new(folder.path(), &cluster.url("without"));
    started(&mut without).await;
    // The best of some starts: other tests run beside this one.
    let mut many = started(&mut replica).await;
    for _ in 1..STARTS {
        replica.kill();
        many = many.min(started(&mut replica).await);
    }
    let longer = many.saturating_sub(none);
    let more = ticks(replica.pid()) as f64 / 100.0;
    let [share, usual] = shares([&replica, &without]).await.map(|share| share * 100.0);
    println!(
        "{POLICIES} policies: {:.2} s longer at the start, {more:.2} s of CPU time; {share:.1} % of a core while nothing \
         changes, {usual:.1} % without policies",
        longer.as_secs_f64(),
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
    assert!(share <= usual + SHARE_MAX * 100.0, "{share:.1} % of a core, {usual:.1} % without policies");
}
