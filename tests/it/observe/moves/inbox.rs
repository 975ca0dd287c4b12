//! What happens to stored messages.

use super::scene::{Day, setup};
use super::{Event, all_happen, events};
use crate::harness::on_both_stores;
use crate::harness::server::Kind;
use crate::inbox::{inbox, message, next};

on_both_stores!(metrics_move_with_stored_messages);

async fn metrics_move_with_stored_messages(kind: Kind) {
    let mut day = Day::start(kind, setup().with("c", inbox())).await;
    all_happen(&mut day, EVENTS).await;
    day.stop().await;
}

pub(super) const EVENTS: &[Event<Day>] = &[
    Event {
        what: "a message is stored",
        happens: is_stored,
        rises: &[STORED, KEPT, r#"inbox_messages{consumer="c",kind="due"}"#],
        falls: &[],
    },
    Event { what: "it waits", happens: waits, rises: &[OLDEST], falls: &[] },
    Event {
        what: "it is handed out",
        happens: is_handed_out,
        rises: &[
            HANDED_OUT,
            "inbox_handed_out_messages_total",
            r#"inbox_messages{consumer="c",kind="later"}"#,
        ],
        falls: &[OLDEST, r#"inbox_messages{consumer="c",kind="due"}"#],
    },
    Event {
        what: "it is completed",
        happens: is_completed,
        rises: &[],
        falls: &[r#"inbox_messages{consumer="c",kind="later"}"#],
    },
];

const STORED: &str = r#"inbox_stores_total{outcome="stored"}"#;
const KEPT: &str = r#"inbox_stored_total{consumer="c",event_type="order.paid"}"#;
const HANDED_OUT: &str = r#"inbox_handouts_total{outcome="handed_out"}"#;
const OLDEST: &str = r#"inbox_oldest_due_seconds{consumer="c"}"#;

events! {
    is_stored(day: Day) {
        day.server.client.store(message("1")).await.unwrap();
    }

    waits(day: Day) {
        day.server.advance(idempotency_ledger::domain::Span::from_secs(5)).await;
    }

    is_handed_out(day: Day) {
        let handed = day.server.client.claim_next(next(1)).await.unwrap().into_inner();
        let token = handed.messages[0].acquired.as_ref().unwrap().token;
        day.keeps("1", token);
    }

    is_completed(day: Day) {
        day.completes("1").await;
    }
}
