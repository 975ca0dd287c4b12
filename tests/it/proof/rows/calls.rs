//! The same through a server, with a watch: reported, not judged.

use std::time::{Duration, Instant};

use idempotency_ledger::proto;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use tonic::Status;
use tonic::transport::Channel;

use super::load::CONSUMERS;
use super::plans::some_entry;
use crate::harness::postgres::Cluster;
use crate::harness::random::Random;
use crate::harness::server::{Served, Setup, postgres_store};
use crate::proof::run::Run;

const CALLS: usize = 50;

type Admin = AdminServiceClient<Channel>;

pub(super) async fn time(run: &Run, cluster: &Cluster) -> String {
    let mut random = Random::new(run.seed ^ 1);
    let mut connection = cluster.connect("postgres").await;
    let mut keys = Vec::new();
    for _ in 0..CALLS {
        keys.push(some_entry(&mut connection, &mut random).await);
    }
    let store = std::sync::Arc::new(postgres_store(&cluster.url("postgres")));
    let served = Served::start(store, Setup::default()).await;
    let admin = &served.admin;
    let name = |number: usize| format!("consumer-{:02}", 1 + number as u64 % CONSUMERS);
    let states = [proto::EntryState::Parked, proto::EntryState::InProgress, proto::EntryState::Completed];
    let list = |number: usize| proto::ListEntriesRequest {
        filter: Some(proto::EntryFilter {
            consumer: name(number),
            states: vec![states[number % 3].into()],
            ..Default::default()
        }),
        order: (1 + number as i32 / 3 % 2),
        ..Default::default()
    };
    let told = [
        timed(run, "GetEntry", admin, async |mut admin: Admin, number| {
            let key = &keys[number];
            let (consumer, source, id) = (key.consumer(), key.source(), key.id());
            let key = proto::EntryKey {
                consumer: consumer.into(),
                source: source.into(),
                id: id.into(),
                ..Default::default()
            };
            admin.get_entry(proto::GetEntryRequest { key: Some(key), ..Default::default() }).await.map(drop)
        })
        .await,
        timed(run, "ListEntries", admin, async |mut admin: Admin, number| {
            admin.list_entries(list(number)).await.map(drop)
        })
        .await,
        timed(run, "SummarizeEntries of one consumer", admin, async |mut admin: Admin, number| {
            let request = proto::SummarizeEntriesRequest { consumer: name(number), ..Default::default() };
            admin.summarize_entries(request).await.map(drop)
        })
        .await,
        timed(run, "SummarizeEntries of all", admin, async |mut admin: Admin, _| {
            admin.summarize_entries(proto::SummarizeEntriesRequest::default()).await.map(drop)
        })
        .await,
    ];
    served.stop().await;
    told.join(", ")
}

async fn timed(
    run: &Run,
    what: &str,
    admin: &Admin,
    call: impl AsyncFn(Admin, usize) -> Result<(), Status>,
) -> String {
    let mut took = Vec::with_capacity(CALLS);
    for number in 0..CALLS {
        let started = Instant::now();
        if let Err(status) = call(admin.clone(), number).await {
            run.fail(format!("{what}: {status:?}"), &[]);
        }
        took.push(started.elapsed());
    }
    took.sort();
    let millis = |took: &Duration| format!("{:.1} ms", took.as_secs_f64() * 1_000.0);
    format!("{what} {} and {}", millis(&took[CALLS / 2]), millis(&took[CALLS - 1]))
}
