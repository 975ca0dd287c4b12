//! What happens to a server in the background: its store, its policies, its clock, its purge.

use std::sync::atomic::Ordering;

use idempotency_ledger::domain::Span;

use super::scene::{Day, setup};
use super::{Event, all_happen, events};
use crate::harness::faulty::Inject;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START};
use crate::{holds, unreadable};

on_both_stores!(metrics_move_with_the_work_in_the_background);

async fn metrics_move_with_the_work_in_the_background(kind: Kind) {
    let mut day = Day::start(kind, setup()).await;
    all_happen(&mut day, EVENTS).await;
    day.stop().await;
}

pub(super) const EVENTS: &[Event<Day>] = &[
    Event { what: "a hold", happens: is_held, rises: &["holds_in_force"], falls: &[] },
    Event { what: "its end", happens: goes_on, rises: &[], falls: &["holds_in_force"] },
    Event {
        what: "a policy of a newer version",
        happens: is_unreadable,
        rises: &["policies_unreadable"],
        falls: &[],
    },
    Event { what: "its version is gone", happens: is_readable, rises: &[], falls: &["policies_unreadable"] },
    Event {
        what: "the policies cannot be read",
        happens: has_no_policies,
        rises: &["policies_age_seconds"],
        falls: &["store_ready"],
    },
    Event {
        what: "the policies are read again",
        happens: has_policies,
        rises: &["store_ready"],
        falls: &["policies_age_seconds"],
    },
    Event {
        what: "a session breaks, and none can be opened",
        happens: loses_its_sessions,
        rises: &[r#"store_sessions_opened_total{outcome="failed",purpose="claims"}"#],
        falls: &["store_sessions"],
    },
    Event {
        what: "sessions can be opened again",
        happens: gets_sessions,
        rises: &["store_sessions", r#"store_sessions_opened_total{outcome="ok",purpose="claims"}"#],
        falls: &[],
    },
    Event {
        what: "more sessions are wanted",
        happens: wants_three,
        rises: &["store_sessions_wanted"],
        falls: &[],
    },
    Event { what: "one is enough", happens: wants_one, rises: &[], falls: &["store_sessions_wanted"] },
    Event {
        what: "the clock is set back",
        happens: is_behind,
        rises: &["store_clock_behind_seconds"],
        falls: &["entries_counted_timestamp_seconds"],
    },
    Event {
        what: "the clock is set right",
        happens: is_right,
        rises: &["entries_counted_timestamp_seconds"],
        falls: &["store_clock_behind_seconds"],
    },
    Event {
        what: "the clock jumps ahead by more than a year",
        happens: is_ahead,
        rises: &["store_clock_ahead_seconds"],
        falls: &[],
    },
    Event {
        what: "the clock is right again",
        happens: is_right,
        rises: &[],
        falls: &["store_clock_ahead_seconds"],
    },
    Event {
        what: "an entry is due, and the purge does not come to an end",
        happens: is_due,
        rises: &["purge_oldest_due_seconds"],
        falls: &[],
    },
    Event {
        what: "the purge goes on",
        happens: is_purged,
        rises: &["purged_total"],
        falls: &["purge_oldest_due_seconds"],
    },
    Event { what: "the purge fails", happens: is_not_purged, rises: &["purge_failures_total"], falls: &[] },
];

events! {
    is_held(day: Day) {
        day.server.admin.hold_consumers(holds::hold("c")).await.unwrap();
    }

    goes_on(day: Day) {
        day.server.admin.resume_consumers(holds::resume("c")).await.unwrap();
    }

    is_unreadable(day: Day) {
        unreadable::newer(&day.server.at, "newer", 1, r#"{"quorum":3}"#).await;
    }

    /// As at a database that was restored to before.
    is_readable(day: Day) {
        day.server.at.execute("DELETE FROM @ledger.policies").await;
        day.server.at.execute("UPDATE @ledger.meta SET policy_epoch = policy_epoch + 1").await;
    }

    has_no_policies(day: Day) {
        day.plan.no_policies.store(true, Ordering::SeqCst);
    }

    has_policies(day: Day) {
        day.plan.no_policies.store(false, Ordering::SeqCst);
    }

    loses_its_sessions(day: Day) {
        day.plan.no_sessions.store(true, Ordering::SeqCst);
        day.plan.next([Inject::LostRequest]);
        day.sends_a_claim("broke");
    }

    gets_sessions(day: Day) {
        day.plan.no_sessions.store(false, Ordering::SeqCst);
    }

    wants_three(day: Day) {
        day.plan.sessions.store(3, Ordering::SeqCst);
    }

    wants_one(day: Day) {
        day.plan.sessions.store(1, Ordering::SeqCst);
    }

    is_behind(day: Day) {
        day.server.at.set_clock(START - Span::from_secs(60)).await;
    }

    is_right(day: Day) {
        day.server.at.set_clock(START + Span::from_secs(60)).await;
    }

    is_ahead(day: Day) {
        day.server.at.set_clock(START + Span::from_days(400)).await;
    }

    is_due(day: Day) {
        day.claims("c", "due").await;
        day.completes("due").await;
        day.plan.close();
        day.server.advance(Span::from_days(40)).await;
    }

    is_purged(day: Day) {
        day.plan.open();
    }

    is_not_purged(day: Day) {
        day.claims("c", "due").await;
        day.completes("due").await;
        day.plan.next([Inject::Unavailable]);
        day.server.advance(Span::from_days(40)).await;
    }
}
