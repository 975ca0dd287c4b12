//! The desks of operators: many requests of one principal do not shut out another one's.

use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt as _, TryFutureExt as _};
use idempotency_ledger::identity::Guard;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::{EntryFilter, GetEntryRequest, ListEntriesRequest};
use sqlx::Executor as _;
use tonic::Status;

use crate::harness::details::{claim, key, refusal};
use crate::harness::postgres as pg;
use crate::harness::raw::channel_to;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::identity::{People, by};

/// One job is at work, one waits in the channel, and 64 requests of all principals wait for a place.
const AT_A_DESK: usize = 66;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_one_principal_leave_room_for_another() {
    let people = People::new(&[("many", &[("c", "read")][..]), ("few", &[("c", "read")])]);
    let mut server = TestServer::start(Kind::Postgres).await;
    server.client.claim(claim("c", "m")).await.unwrap();
    let database = server.at.database.clone().unwrap();
    let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default() };
    let server = TestServer::on(server.stop().await, setup).await;
    let admin = AdminServiceClient::new(channel_to(&server.address().to_string()).await);

    let mut foreign = pg::shared().connect(&database).await;
    foreign.execute("BEGIN; LOCK TABLE ledger.entries IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let list = || {
        let request = ListEntriesRequest {
            filter: Some(EntryFilter { consumer: "c".into(), ..EntryFilter::default() }),
            ..ListEntriesRequest::default()
        };
        let (mut admin, request) = (admin.clone(), by(people.token("many"), request));
        async move { admin.list_entries(request).await.map(drop) }
    };
    let mut many: FuturesUnordered<_> = (0..AT_A_DESK + 10).map(|_| tokio::spawn(list())).collect();
    for _ in 0..10 {
        assert_full(many.next().await.unwrap().unwrap());
    }
    let mut few = admin.clone();
    let get = GetEntryRequest { key: key("c", "m"), ..GetEntryRequest::default() };
    let get = by(people.token("few"), get);
    let few = tokio::spawn(async move { few.get_entry(get).map_ok(drop).await });
    assert_full(many.next().await.unwrap().unwrap());
    foreign.execute("ROLLBACK").await.unwrap();
    few.await.unwrap().expect("the newest request of the other principal gave way to it");
    while let Some(ended) = many.next().await {
        ended.unwrap().unwrap();
    }
    server.stop().await;
}

fn assert_full(ended: Result<(), Status>) {
    let refused = refusal(&ended.expect_err("no read ends while the table is locked"));
    assert_eq!(refused.reason, "OVERLOADED", "{refused:?}");
}
