//! Tenants that together hold what a server has for requests: another tenant finds room at once, or as soon as what does
//! not arrive has been refused.

use std::time::Duration;

use bytes::Bytes;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::{
    BatchClaimRequest, BatchSettleRequest, ClaimRequest, CompleteRequest, Settlement, settlement::Action,
};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::Status;
use tonic::transport::Channel;

use super::tenants::{Asked, Deaf, Tenants};
use crate::harness::details::{claim, key, refusal};
use crate::harness::timer::Timer;
use crate::identity::by;

/// How often a healthy client may find room immediately: on a busy machine it may ask after others were refused.
const ROUNDS: usize = 3;
const LEDGER: &str = "idempotency.ledger.v1.LedgerService";
/// Of which claims may have 20 MiB, and settlements 28.
const SERVER_BYTES_MAX: &str = "33554432";
/// What is sent of each request at once: small enough that it finds what room is left.
const PIECE: usize = 60_000;
/// The length that its message announces.
const ANNOUNCED: u32 = 1_000_000;

fn begun() -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(ANNOUNCED.to_be_bytes());
    bytes.resize(PIECE, 0x7a);
    bytes
}

/// What comes of a request after its first piece.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    /// One byte each 300 ms: less than what counts as progress.
    Bytes,
    /// More than the lowest rate, so that the request is on its way.
    Pieces,
}

/// Sends the rest of a request until the server ends it.
async fn sent(asked: Asked, then: Then) {
    let Asked { answer, mut body } = asked;
    let sending = async {
        loop {
            sleep(Duration::from_millis(300)).await;
            let bytes = match then {
                Then::Nothing => continue,
                Then::Bytes => Bytes::from_static(&[0x7a]),
                Then::Pieces => Bytes::from(vec![0x7a; 20_000]),
            };
            if body.send_data(bytes, false).is_err() {
                break;
            }
        }
    };
    tokio::select! {
        _ = answer => {}
        () = sending => {}
    }
}

/// A hostile tenant with so many requests under way, each on its way as told; where one ends another one follows.
async fn holds(mut deaf: Deaf, rpc: &'static str, token: String, calls: usize, then: Then) {
    let path = format!("{LEDGER}/{rpc}");
    let mut open = JoinSet::new();
    for _ in 0..calls {
        let Some(asked) = deaf.ask(&path, &token, begun(), false).await else { return };
        open.spawn(sent(asked, then));
    }
    while open.join_next().await.is_some() {
        if matches!(then, Then::Pieces) {
            let Some(asked) = deaf.ask(&path, &token, begun(), false).await else { return };
            open.spawn(sent(asked, then));
        }
    }
}

/// Claims of some 0.7 MB.
fn large_claims() -> BatchClaimRequest {
    let long = |id: usize| ClaimRequest {
        event_type: "e".repeat(128),
        owner: "o".repeat(128),
        ..claim("healthy", &format!("{id:0>400}"))
    };
    BatchClaimRequest { requests: (0..1_000).map(long).collect() }
}

/// Settlements of 2 MB, of claims that nobody has.
fn large_settlements() -> BatchSettleRequest {
    let one = |id: usize| Settlement {
        action: Some(Action::Complete(CompleteRequest {
            key: key("healthy", &id.to_string()),
            token: 1,
            result: Bytes::from(vec![7; 16_000]),
            ..Default::default()
        })),
    };
    BatchSettleRequest { settlements: (0..125).map(one).collect() }
}

async fn asked(
    client: &mut LedgerServiceClient<Channel>,
    rpc: &'static str,
    token: &str,
) -> Result<(), Status> {
    match rpc {
        "BatchClaim" => client.batch_claim(by(token, large_claims())).await.map(drop),
        _ => client.batch_settle(by(token, large_settlements())).await.map(drop),
    }
}

/// Four principals whose requests go on arriving: none of them holds more than what is free after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn principals_together_leave_room_for_others() {
    let tenants = Tenants::start(4, "60s", &["--server-bytes-max", SERVER_BYTES_MAX]).await;
    let mut hostile = JoinSet::new();
    for token in &tenants.hostile {
        let deaf = Deaf::connect(&tenants.edge, 65_535).await;
        hostile.spawn(holds(deaf, "BatchClaim", token.clone(), 100, Then::Pieces));
    }
    tenants.holds(10 << 20).await;
    let mut client = LedgerServiceClient::new(tenants.healthy.way.connect().await.unwrap());
    for number in 0..20 {
        let answer = asked(&mut client, "BatchClaim", &tenants.healthy.tokens[0]).await;
        answer.unwrap_or_else(|status| panic!("call {number}: {status:?}"));
        sleep(Duration::from_millis(50)).await;
    }
    hostile.abort_all();
}

/// Lets forty principals hold what one may have, in requests that do not arrive. Returns how often a healthy client was refused
/// before it had its room.
async fn refusals_before_room(what: &str, rpc: &'static str, then: Then) -> u32 {
    let tenants = Tenants::start(40, "60s", &["--server-bytes-max", SERVER_BYTES_MAX]).await;
    let mut hostile = JoinSet::new();
    for token in &tenants.hostile {
        let deaf = Deaf::connect(&tenants.edge, 65_535).await;
        hostile.spawn(holds(deaf, rpc, token.clone(), 12, then));
    }
    tenants.holds(18 << 20).await;
    let mut client = LedgerServiceClient::new(tenants.healthy.way.connect().await.unwrap());
    let (timer, mut refused) = (Timer::start(), 0);
    while let Err(status) = asked(&mut client, rpc, &tenants.healthy.tokens[0]).await {
        assert_eq!(refusal(&status).reason, "OVERLOADED", "{what}");
        timer.within(Duration::from_secs(10), what);
        refused += 1;
        sleep(Duration::from_millis(200)).await;
    }
    hostile.abort_all();
    refused
}

/// Forty principals leave little to each one: what does not arrive is refused when another one needs its room, claims first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_do_not_arrive_give_their_room_to_others() {
    for (what, rpc, then) in [
        ("claims that stop", "BatchClaim", Then::Nothing),
        ("claims of which a byte comes now and then", "BatchClaim", Then::Bytes),
        ("settlements that stop", "BatchSettle", Then::Nothing),
        ("settlements of which a byte comes now and then", "BatchSettle", Then::Bytes),
    ] {
        let mut refused = 0;
        for _ in 0..ROUNDS {
            refused = refusals_before_room(what, rpc, then).await;
            if refused > 0 {
                break;
            }
        }
        assert!(refused > 0, "{what}: the server was never full");
    }
}
