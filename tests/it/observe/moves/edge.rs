//! Limits at the edge: of an address, of a principal, and of all clients together.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use idempotency_ledger::proto;
use idempotency_ledger::rpc::{ConnectionLimits, PrincipalLimits};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpSocket;

use super::scene::Day;
use super::{Event, Scene as _, all_happen, events, value};
use crate::edge::frames::message;
use crate::edge::{PREFACE, SETTINGS};
use crate::harness::details::{claim, key};
use crate::harness::server::{Kind, Setup};

const FULL: &str = r#"server_full_total{resource="request_bytes"}"#;
/// More imports than the server has room for.
const IMPORTS_MAX: usize = 200;

/// No store sees what is refused here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_move_with_what_the_edge_refuses() {
    let connections = ConnectionLimits { per_address_max: 2, ..ConnectionLimits::default() };
    let principals = PrincipalLimits { calls_per_second: 500, ..PrincipalLimits::default() };
    let stall_max = Duration::from_secs(1);
    let setup = Setup { connections, principals, stall_max, server_bytes_max: 1 << 20, ..Setup::default() };
    let mut day = Day::start(Kind::Sqlite, setup).await;
    all_happen(&mut day, EVENTS).await;
    day.stop().await;
}

pub(super) const EVENTS: &[Event<Day>] = &[
    Event {
        what: "an address has too many connections",
        happens: has_three_connections,
        rises: &[r#"connections_closed_total{why="per_address"}"#],
        falls: &[],
    },
    Event { what: "imports take all room", happens: takes_all_room, rises: &[FULL], falls: &[] },
    Event {
        what: "the rest of a request does not arrive",
        happens: stalls,
        rises: &[r#"streams_ended_total{why="request_stalled"}"#],
        falls: &[],
    },
    Event {
        what: "a batch has more items than a second's calls",
        happens: is_too_quick,
        rises: &[r#"principal_refusals_total{limit="rate"}"#],
        falls: &[],
    },
];

events! {
    has_three_connections(day: Day) {
        for _ in 0..3 {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
            let mut stream = socket.connect(day.server.address()).await.unwrap();
            // The one too many may be closed already.
            let _closed = stream.write_all(&[PREFACE, SETTINGS].concat()).await;
            day.held.push(Box::new(stream));
        }
    }

    /// Each import has stored its first message, and the next one does not come.
    takes_all_room(day: Day) {
        day.held.clear();
        for number in 0..IMPORTS_MAX {
            if value(&day.series().await, FULL) > 0.0 {
                return;
            }
            let first = proto::ImportEntriesRequest {
                operation_id: format!("import {number}"),
                reason: "room".into(),
                entries: vec![proto::ImportedEntry { key: key("c", &number.to_string()), ..Default::default() }],
            };
            let (more, rest) = tokio::sync::oneshot::channel::<()>();
            let messages = stream::iter([first]).chain(stream::once(rest).filter_map(|_| async { None }));
            if let Ok(stored) = day.server.admin.import_entries(messages).await {
                day.held.push(Box::new((more, stored)));
            }
        }
    }

    stalls(day: Day) {
        day.held.clear();
        let mut bytes = message(&claim("c", &"x".repeat(200)));
        bytes.truncate(150);
        day.unread(bytes, false).await;
    }

    is_too_quick(day: Day) {
        day.held.clear();
        let requests = (0..1_000).map(|number| claim("c", &number.to_string())).collect();
        drop(day.server.client.batch_claim(proto::BatchClaimRequest { requests }).await);
    }
}
