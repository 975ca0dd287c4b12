//! The largest answer, read slowly and in any pieces, by gRPC and by HTTP/1.1, without TLS and with it: each item of it is that
//! of its request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use idempotency_ledger::identity::{OwnCertificate, Tls, Trust};
use idempotency_ledger::proto;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::settlement::Action;
use prost::Message as _;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tonic::transport::Channel;

use crate::harness::details::{acquired, claim, completed, key};
use crate::harness::pki::Pki;
use crate::harness::random::Random;
use crate::harness::raw::{channel, channel_to};
use crate::harness::server::{Kind, TestServer};
use crate::identity::tls::{Secured, way};

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

fn requests() -> proto::BatchClaimRequest {
    proto::BatchClaimRequest { requests: (0..ITEMS).map(|number| claim("c", &number.to_string())).collect() }
}

/// Completes each item with its result.
async fn fill(channel: Channel) {
    let mut client = LedgerServiceClient::new(channel);
    let claimed = client.batch_claim(requests()).await.unwrap().into_inner().responses;
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
    client.batch_settle(proto::BatchSettleRequest { settlements: settlements.collect() }).await.unwrap();
}

/// An answer of which bytes are left behind has no end.
async fn ends<T>(answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), answer).await.expect("the answer ends within a minute")
}

async fn by_grpc(channel: Channel) -> proto::BatchClaimResponse {
    let mut reader = LedgerServiceClient::new(channel).max_decoding_message_size(16 << 20);
    reader.batch_claim(requests()).await.unwrap().into_inner()
}

async fn by_http1<S>(stream: S) -> proto::BatchClaimResponse
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut reader, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::post("/idempotency.ledger.v1.LedgerService/BatchClaim")
        .header("host", "localhost")
        .header("content-type", "application/proto")
        .body(Full::new(Bytes::from(requests().encode_to_vec())));
    let answer = reader.send_request(request.unwrap()).await.unwrap();
    assert_eq!(answer.status(), http::StatusCode::OK);
    proto::BatchClaimResponse::decode(answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[track_caller]
fn is_whole(answer: &proto::BatchClaimResponse) {
    assert_eq!(answer.responses.len(), ITEMS);
    for (number, response) in answer.responses.iter().enumerate() {
        assert!(completed(response).result == result(number), "item {number}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_item_of_the_largest_answer_is_that_of_its_request() {
    let server = TestServer::start(Kind::Sqlite).await;
    fill(channel(&server).await).await;
    let slow = slow_way(server.address()).await;
    is_whole(&ends(by_grpc(channel_to(&slow.to_string()).await)).await);
    let slow = slow_way(server.http_address()).await;
    is_whole(&ends(by_http1(TcpStream::connect(slow).await.unwrap())).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_item_of_the_largest_answer_is_that_of_its_request_by_tls() {
    let pki = Pki::new();
    let (certificate, key) = pki.signed("localhost");
    let own = OwnCertificate::read(certificate.as_bytes(), key.as_bytes()).unwrap();
    // Without authorities of clients: callers are anonymous.
    let tls = Some(Arc::new(Tls::new(&own, None).unwrap()));
    let server = Secured::start(Trust { tls, ..Trust::default() }).await;
    let to = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    fill(way(&pki, server.port(), None).connect().await.unwrap()).await;
    let slow = slow_way(to(server.port())).await;
    is_whole(&ends(by_grpc(way(&pki, slow.port(), None).connect().await.unwrap())).await);
    let slow = TcpStream::connect(slow_way(to(server.http_port())).await).await.unwrap();
    let secured = pki.http1(None).connect(ServerName::try_from("localhost").unwrap(), slow).await.unwrap();
    is_whole(&ends(by_http1(secured)).await);
    server.stop().await;
}
