//! Calls that their clients reset: a pause makes many of them at once, and cuts nobody off; a flood takes its turns with
//! everybody else's calls.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::frames::{PING, frame};
use super::{Edge, PREFACE, SETTINGS};
use crate::harness::details::{acquired, claim, refusal};
use crate::harness::server::{Kind, TestServer};
use crate::harness::signals::signal;

/// Calls whose clients give up, `each` at once, until there were `count`.
async fn given_up(client: &LedgerServiceClient<Channel>, count: usize, each: usize) {
    for round in 0..count / each {
        let mut calls = JoinSet::new();
        for number in 0..each {
            let mut client = client.clone();
            let id = format!("late-{round}-{number}");
            let call = async move { client.claim(claim("c", &id)).await.map(drop) };
            calls.spawn(tokio::time::timeout(Duration::from_millis(100), call));
        }
        while let Some(call) = calls.join_next().await {
            assert!(call.unwrap().is_err(), "a call was answered");
        }
    }
}

/// Calls whose clients wait, on the connection of the others.
fn patient(client: &LedgerServiceClient<Channel>) -> JoinSet<()> {
    let mut calls = JoinSet::new();
    for number in 0..10 {
        let mut client = client.clone();
        calls.spawn(async move {
            let answer = client.claim(claim("c", &format!("patient-{number}"))).await;
            acquired(&answer.unwrap_or_else(|status| panic!("{number}: {status:?}")).into_inner());
        });
    }
    calls
}

/// What 10 s of full streams make, where each client waits for 625 ms.
const OF_A_PAUSE: usize = 16 * 240;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stood_still_cuts_nobody_off() {
    let edge = Edge::start(&[]).await;
    let mut client = edge.server.client().await;
    acquired(&client.claim(claim("c", "before")).await.unwrap().into_inner());
    signal("STOP", &[edge.pid()]);
    let patient = patient(&client);
    given_up(&client, OF_A_PAUSE, 240).await;
    signal("CONT", &[edge.pid()]);
    patient.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_stands_still_cuts_nobody_off() {
    let server = TestServer::start(Kind::Sqlite).await;
    let client = server.client.clone();
    let held = server.at.hold_writes().await;
    let patient = patient(&client);
    given_up(&client, 1_200, 240).await;
    drop(held);
    patient.join_all().await;
    server.stop().await;
}

/// A call of a stream, and its end by the client.
fn reset_call(stream: u32) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    let path = b"/idempotency.ledger.v1.LedgerService/Claim";
    block.extend([0x04, path.len() as u8]);
    block.extend(path);
    block.extend([0x0f, 0x10, 16]);
    block.extend(b"application/grpc");
    let mut bytes = vec![0, 0, block.len() as u8, 1, 4];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(block);
    bytes.extend([0, 0, 4, 3, 0]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(8_u32.to_be_bytes());
    bytes
}

/// Sends calls and resets, and then asks whether the server has read them all: none, if it did; else the reason with which
/// it ended the connection.
fn flood(address: &str, calls: u32, paused: Option<u32>) -> Option<u32> {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(&[PREFACE, SETTINGS].concat()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    if let Some(pid) = paused {
        signal("STOP", &[pid]);
    }
    let mut reading = stream.try_clone().unwrap();
    reading.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let sending = std::thread::spawn(move || {
        for number in 0..calls {
            if stream.write_all(&reset_call(2 * number + 1)).is_err() {
                return;
            }
        }
        let _ended_meanwhile = stream.write_all(&frame(PING, 0, 0, &[7; 8]));
    });
    if let Some(pid) = paused {
        std::thread::sleep(Duration::from_secs(1));
        signal("CONT", &[pid]);
    }
    let mut reason = None;
    let mut header = [0; 9];
    loop {
        reading.read_exact(&mut header).unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize];
        reading.read_exact(&mut payload).unwrap();
        if header[3] == PING && header[4] == ACK {
            break;
        }
        if header[3] == 7 {
            reason = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
            break;
        }
    }
    drop(reading);
    sending.join().unwrap();
    reason
}

const ACK: u8 = 1;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_resets_takes_little_memory_holds_up_nobody_and_is_read() {
    let edge = Edge::start(&[]).await;
    let mut client = edge.server.client().await;
    acquired(&client.claim(claim("c", "before")).await.unwrap().into_inner());
    let calm = edge.rss();
    for paused in [Some(edge.pid()), None] {
        let address = edge.server.address.clone();
        let flooding = tokio::task::spawn_blocking(move || flood(&address, 100_000, paused));
        let mut most = 0;
        let mut served = 0;
        while !flooding.is_finished() {
            most = most.max(edge.rss());
            match client.claim(claim("c", &format!("other-{}-{served}", paused.is_some()))).await {
                Ok(_) => served += 1,
                // The pause may be longer than the store is waited for; without details the connection is cut.
                Err(status) => assert_eq!(refusal(&status).reason, "OUTCOME_UNKNOWN"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let reason = flooding.await.unwrap();
        println!(
            "paused {paused:?}: GOAWAY {reason:?}, {calm} MiB, then up to {most} MiB, {served} others served"
        );
        // A proxy whose clients give up sends as much: it waits for its turns, and is not cut off.
        assert_eq!(reason, None, "paused: {paused:?}");
        assert!(served > 0, "nobody else was served");
        assert!(most < calm + 50, "{calm} MiB, then {most} MiB");
    }
}
