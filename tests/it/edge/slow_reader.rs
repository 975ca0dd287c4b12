//! The largest answer, read slowly and in any pieces: each item of it is that of its request.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use idempotency_ledger::proto;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::settlement::Action;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};

use crate::harness::details::{acquired, claim, completed, key};
use crate::harness::random::Random;
use crate::harness::raw::channel_to;
use crate::harness::server::{Kind, TestServer};

const ITEMS: usize = 1_000;
/// Together nearly as much as an answer may have.
const RESULT_BYTES: usize = 3_500;
/// What the kernel keeps for the reader: the server's writes are cut where it is full.
const RECEIVE_BUFFER: u32 = 4_096;

/// A result that no other item has.
fn result(number: usize) -> Bytes {
    let mut bytes = format!("{number} ").into_bytes();
    let mut random = Random::new(number as u64);
    bytes.resize_with(RESULT_BYTES, || random.below(256) as u8);
    bytes.into()
}

/// The address of a way to the server that reads from it little at a time, in pieces of any size.
async fn slow_way(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(RECEIVE_BUFFER).unwrap();
        let (mut from_server, mut to_server) = socket.connect(to).await.unwrap().into_split();
        let (mut from_client, mut to_client) = client.into_split();
        tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
        let mut random = Random::new(1);
        let mut piece = [0; 3_000];
        loop {
            let most = 1 + random.below(piece.len() as u64) as usize;
            match from_server.read(&mut piece[..most]).await {
                Ok(0) | Err(_) => return,
                Ok(read) => to_client.write_all(&piece[..read]).await.unwrap(),
            }
            if random.percent(3) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_item_of_the_largest_answer_is_that_of_its_request() {
    let mut server = TestServer::start(Kind::Sqlite).await;
    let requests = || (0..ITEMS).map(|number| claim("c", &number.to_string())).collect::<Vec<_>>();
    let claimed = server.client.batch_claim(proto::BatchClaimRequest { requests: requests() }).await;
    let claimed = claimed.unwrap().into_inner().responses;
    let settlements = claimed.iter().enumerate().map(|(number, response)| {
        let complete = proto::CompleteRequest {
            key: key("c", &number.to_string()),
            token: acquired(response).token,
            result: result(number),
            result_left_out: false,
            event_type: String::new(),
        };
        proto::Settlement { action: Some(Action::Complete(complete)) }
    });
    let settlements: Vec<_> = settlements.collect();
    server.client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap();
    let channel = channel_to(&slow_way(server.address()).await.to_string()).await;
    let mut reader = LedgerServiceClient::new(channel).max_decoding_message_size(16 << 20);
    let answer = reader.batch_claim(proto::BatchClaimRequest { requests: requests() }).await;
    let responses = answer.unwrap().into_inner().responses;
    assert_eq!(responses.len(), ITEMS);
    for (number, response) in responses.iter().enumerate() {
        assert!(completed(response).result == result(number), "item {number}");
    }
    drop(reader);
    server.stop().await;
}
