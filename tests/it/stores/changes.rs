//! The changes of operators: a request that was carried out before is recognised by its event, and a change of what
//! another writer has changed meanwhile is lost. Neither changes anything.

use idempotency_ledger::domain::{AuditEvent, Hold, PolicyVersion, ReplayRun, RequestDigest, RunMode, Span};
use idempotency_ledger::store::{EffectiveRetention, Session, Write, WriteResult};

use super::{granted, insert, load};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, TestStore};

on_both_stores!(a_repeated_or_lost_change_changes_nothing);

fn event(consumer: &str, id: &str) -> AuditEvent {
    AuditEvent {
        request_id: id.into(),
        at: START,
        actor: "tests".into(),
        action: "OPERATOR".into(),
        consumer: consumer.into(),
        key: None,
        reason: "tests".into(),
        before: None,
        after: None,
        digest: Some(RequestDigest::of("tests", id.as_bytes())),
    }
}

fn hold(prefix: &str) -> Hold {
    Hold { prefix: prefix.into(), created_at: START, actor: "tests".into(), reason: "tests".into() }
}

fn run(name: &str) -> ReplayRun {
    ReplayRun {
        consumer: "stores".into(),
        name: name.into(),
        mode: RunMode::Rebuild,
        created_at: START,
        ends_at: START + Span::from_days(1),
        closed_at: None,
        actor: "tests".into(),
        reason: "tests".into(),
    }
}

fn policy(version: i32) -> PolicyVersion {
    PolicyVersion {
        consumer: "stores".into(),
        version,
        policy: None,
        created_at: START,
        actor: "tests".into(),
        reason: "tests".into(),
    }
}

/// A change, by the epoch that its caller saw.
#[derive(Clone, Copy, Debug)]
enum Change {
    AddHold(&'static str),
    LiftHold(&'static str),
    AddRun(&'static str),
    CloseRun(&'static str),
    AddPolicy(i32),
    /// A change of the entry `1` from the version of the first row to one after it.
    Replace,
    Delete,
}

async fn carry_out(session: &mut dyn Session, change: Change, epoch: i64, id: &str) -> WriteResult {
    let of_entry = event("stores", id);
    let done = match change {
        Change::AddHold(prefix) => session.hold_book().add_hold(&hold(prefix), epoch, &event("", id)).await,
        Change::LiftHold(prefix) => session.hold_book().lift_hold(prefix, &event("", id)).await,
        Change::AddRun(name) => session.replay_book().add_replay_run(&run(name), epoch, &of_entry).await,
        Change::CloseRun(name) => session.replay_book().close_replay_run("stores", name, &of_entry).await,
        Change::AddPolicy(version) => {
            let nothing = EffectiveRetention::nothing("stores");
            session.policy_book().add_policy(&policy(version), &nothing, &of_entry).await
        }
        Change::Replace => {
            let mut entry = granted("1", START);
            entry.version += 1;
            entry.last_error = "changed".into();
            session.operators().change(&Write::Replace(Box::new(entry)), &of_entry).await
        }
        Change::Delete => {
            let entry = granted("1", START);
            session.operators().change(&Write::Delete(entry.key.hash(), entry.version), &of_entry).await
        }
    };
    done.unwrap()
}

/// All that these changes change.
async fn standing(session: &mut dyn Session) -> String {
    let holds = session.hold_book().holds().await.unwrap();
    let runs = session.replay_book().replay_runs_of("stores", "", 10).await.unwrap();
    let policies = session.policy_book().policy_versions("stores", i32::MAX, 10).await.unwrap();
    let epoch = session.policy_book().policy_epoch().await.unwrap();
    format!("{holds:?} {runs:?} {policies:?} {epoch} {:?}", load(session, "1").await)
}

async fn a_repeated_or_lost_change_changes_nothing(kind: Kind) {
    use Change::{AddHold, AddPolicy, AddRun, CloseRun, Delete, LiftHold, Replace};
    use WriteResult::{Done, Lost, Repeated};
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    insert(&mut *session, &granted("1", START)).await;
    // The request; the change; whether its caller saw the newest epoch; what becomes of it.
    for (id, change, newest, expected) in [
        ("hold", AddHold("pay"), false, Lost),
        ("hold", AddHold("pay"), true, Done),
        ("hold", AddHold("other"), true, Repeated),
        ("again", AddHold("pay"), true, Lost),
        ("run", AddRun("a"), false, Lost),
        ("run", AddRun("a"), true, Done),
        ("run", AddRun("b"), true, Repeated),
        ("same name", AddRun("a"), true, Lost),
        ("close", CloseRun("b"), true, Lost),
        ("run", CloseRun("a"), true, Repeated),
        ("close", CloseRun("a"), true, Done),
        ("close", CloseRun("a"), true, Repeated),
        ("close again", CloseRun("a"), true, Lost),
        ("policy", AddPolicy(1), true, Done),
        ("policy", AddPolicy(2), true, Repeated),
        ("old policy", AddPolicy(1), true, Lost),
        ("lift", LiftHold("other"), true, Lost),
        ("hold", LiftHold("pay"), true, Repeated),
        ("lift", LiftHold("pay"), true, Done),
        ("lift", LiftHold("pay"), true, Repeated),
        ("policy", Replace, true, Repeated),
        ("replace", Replace, true, Done),
        ("replace", Replace, true, Repeated),
        ("stale", Replace, true, Lost),
        ("delete", Delete, true, Lost),
    ] {
        let case = format!("{id}: {change:?}");
        let before = standing(&mut *session).await;
        let epoch = session.policy_book().policy_epoch().await.unwrap() - i64::from(!newest);
        assert_eq!(carry_out(&mut *session, change, epoch, id).await, expected, "{case}");
        assert_eq!(standing(&mut *session).await != before, expected == Done, "{case}");
    }
    assert_eq!(
        at.number("SELECT count(*) FROM @ledger.audit").await,
        6,
        "an event for each change that was done"
    );
}
