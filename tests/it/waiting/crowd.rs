//! Many waiting calls: on one key, while the server drains, and what they cost the store. `LEDGER_PROOF_SIZE` is the number
//! of calls that wait while the server drains.

use std::time::{Duration, Instant};

use idempotency_ledger::domain::Policy;
use idempotency_ledger::ledger::WaitBounds;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::{self, claim_response::Verdict};
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use super::{complete, ended, fail, held, until_waiting, waits};
use crate::harness::details::{acquired, completed, key};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::harness::timer::Timer;
use crate::proof::run::Run;

on_both_stores!(
    of_1000_waiters_on_one_key_one_is_granted_it_at_each_failure,
    waiters_are_let_go_when_the_server_drains,
    the_store_is_asked_by_few_statements_however_many_calls_wait,
);

/// How many calls of one connection may wait.
const OF_CONNECTION: usize = 128;
/// How many Claims are sent together: fewer than the queue holds. A Claim whose first look finds the queue full is refused,
/// and does not wait; SQLite carries out so few of them in an unoptimized build that 2,500 of 10,000 were.
const SLICE: usize = 2_000;

/// Longer than a test takes.
const LONG: Duration = Duration::from_secs(60);
/// More calls than a test needs.
const ANY: WaitBounds = WaitBounds { server: 1_000_000, key: 10_000 };

async fn crowded(kind: Kind) -> TestServer {
    TestServer::start_with(kind, Setup { waits: ANY, max_wait: LONG, ..Setup::default() }).await
}

type Answered = Result<Response<proto::ClaimResponse>, Status>;

/// Sends this many Claims that wait, over as many connections as they need.
async fn send(
    server: &TestServer,
    ids: impl Iterator<Item = String>,
    tell: &mpsc::UnboundedSender<Answered>,
) {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
    let mut client: Option<LedgerServiceClient<Channel>> = None;
    for (number, id) in ids.enumerate() {
        if number % OF_CONNECTION == 0 {
            client = Some(LedgerServiceClient::new(endpoint.connect().await.unwrap()));
        }
        let (mut client, tell) = (client.clone().unwrap(), tell.clone());
        tokio::spawn(async move {
            let _ended = tell
                .send(client.claim(proto::ClaimRequest { wait: super::secs(30), ..waits("c", &id) }).await);
        });
    }
}

/// How long this many concurrent Lookups take, over as many connections as the waiting calls have.
async fn looked_up_by_all(server: &TestServer, calls: usize) -> Duration {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
    let mut clients = Vec::new();
    for _ in 0..calls.div_ceil(OF_CONNECTION) {
        clients.push(LedgerServiceClient::new(endpoint.connect().await.unwrap()));
    }
    let since = Instant::now();
    let lookups: Vec<_> = (0..calls)
        .map(|number| {
            let mut client = clients[number / OF_CONNECTION].clone();
            let request = proto::LookupRequest { key: key("c", &number.to_string()), wait: None };
            tokio::spawn(async move { client.lookup(request).await.map(drop) })
        })
        .collect();
    for lookup in lookups {
        lookup.await.unwrap().unwrap();
    }
    since.elapsed()
}

/// For how many milliseconds the threads of this process ran, and for how many they waited for a processor.
fn times() -> (u64, u64) {
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        let mut nanos = text.split(' ').map(|one| one.parse::<u64>().ok());
        Some((nanos.next()?? / 1_000_000, nanos.next()?? / 1_000_000))
    };
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    tasks.filter_map(of).fold((0, 0), |(ran, waited), one| (ran + one.0, waited + one.1))
}

async fn of_1000_waiters_on_one_key_one_is_granted_it_at_each_failure(kind: Kind) {
    const CALLS: usize = 1_000;
    const FAILURES: usize = 20;
    let default = Policy { max_attempts: 0, ..Policy::default() };
    let server =
        TestServer::start_with(kind, Setup { waits: ANY, max_wait: LONG, default, ..Setup::default() }).await;
    let mut token = held(&server, "1").await;
    let (tell, mut answered) = mpsc::unbounded_channel();
    send(&server, (0..CALLS).map(|_| "1".to_owned()), &tell).await;
    until_waiting(&server, CALLS).await;
    for failure in 1..=FAILURES {
        fail(&server, "1", token).await;
        let granted = acquired(answered.recv().await.unwrap().unwrap().get_ref());
        token = granted.token;
        assert_eq!(granted.attempt as usize, failure + 1);
        until_waiting(&server, CALLS - failure).await;
        assert!(answered.try_recv().is_err(), "one grant a failure");
    }
    complete(&server, "1", token).await;
    for _ in FAILURES..CALLS {
        completed(answered.recv().await.unwrap().unwrap().get_ref());
    }
    assert_eq!((ended(&server, "granted"), ended(&server, "answered")), (FAILURES, CALLS - FAILURES));
    server.stop().await;
}

async fn waiters_are_let_go_when_the_server_drains(kind: Kind) {
    const SMALL: u64 = 1_000;
    let run = Run::new("waiters", SMALL);
    let calls = run.size as usize;
    let server = crowded(kind).await;
    let keys = calls.div_ceil(100);
    for key in 0..keys {
        held(&server, &key.to_string()).await;
    }
    let (tell, mut answered) = mpsc::unbounded_channel();
    for part in (0..calls).step_by(SLICE) {
        let end = (part + SLICE).min(calls);
        send(&server, (part..end).map(|number| (number % keys).to_string()), &tell).await;
        until_waiting(&server, end).await;
    }
    // The small size runs next to other tests, where a slow machine needs seconds for so many answers, and for as many Lookups. The whole
    // size runs alone.
    let control = if run.size > SMALL { 0 } else { looked_up_by_all(&server, calls).await.as_millis() };
    let (since, timer, (ran, waited)) = (Instant::now(), Timer::start(), times());
    let stopped = tokio::spawn(server.stop());
    let (mut millis, mut spread) = (0, [0_usize; 10]);
    for _ in 0..calls {
        let answer = answered.recv().await.unwrap().unwrap().into_inner();
        millis = since.elapsed().as_millis();
        assert!(matches!(answer.verdict, Some(Verdict::InProgress(_))), "{answer:?}");
        let again = answer.retry_after.unwrap();
        assert!(again.seconds == 0 && again.nanos > 0 || again.seconds == 1 && again.nanos == 0, "{again:?}");
        spread[(again.nanos / 100_000_000) as usize] += 1;
    }
    let delayed = timer.delayed().as_millis();
    let (ran, waited) = (times().0.saturating_sub(ran), times().1.saturating_sub(waited));
    assert!(
        millis < 1_000 + delayed + control,
        "{calls} calls were let go within {millis} ms, of which the machine delayed {delayed} ms; as many calls that do not wait took \
         {control} ms; the threads ran {ran} ms, and waited {waited} ms for a processor"
    );
    assert!(spread.iter().all(|part| *part > 0), "they do not come again together: {spread:?}");
    stopped.await.unwrap();
    run.summary(format!(
        "{kind:?}, {calls} calls that waited were answered within {millis} ms; the threads of server and clients ran \
         {ran} ms, and waited {waited} ms for a processor"
    ));
}

async fn the_store_is_asked_by_few_statements_however_many_calls_wait(kind: Kind) {
    const CALLS: usize = 1_200;
    const SECONDS: f64 = 3.0;
    let server = crowded(kind).await;
    let polls = || {
        let of = |what: &str| {
            let series = format!("idempotency_ledger_store_statement_{what}{{statement=\"poll\"}}");
            server.metric(&series).unwrap_or_default()
        };
        (of("seconds_count"), of("rows_sum"))
    };
    let opened = || {
        let series = "idempotency_ledger_store_sessions_opened_total{outcome=\"ok\",purpose=\"waits\"}";
        server.metric(series).unwrap_or_default()
    };
    for number in 0..CALLS {
        held(&server, &number.to_string()).await;
    }
    assert_eq!((polls(), opened()), ((0.0, 0.0), 0.0), "without calls that wait nothing is asked");
    let (tell, answered) = mpsc::unbounded_channel();
    send(&server, (0..CALLS).map(|number| number.to_string()), &tell).await;
    until_waiting(&server, CALLS).await;
    let (before, since) = (polls(), Instant::now());
    tokio::time::sleep(Duration::from_secs_f64(SECONDS)).await;
    let (now, took) = (polls(), since.elapsed().as_secs_f64());
    let (statements, keys) = ((now.0 - before.0) / took, (now.1 - before.1) / took);
    // Each key once a second at least.
    assert!(
        statements <= 11.0 && keys <= 5_100.0 && keys >= CALLS as f64 * 0.6,
        "{statements} {keys} a second"
    );
    assert_eq!(opened(), 1.0, "one session for all");
    drop(answered);
    server.stop().await;
    println!(
        "SUMMARY {kind:?}: {CALLS} calls that wait: {statements:.1} statements, {keys:.0} keys a second"
    );
}
