//! What the two guesses write, column by column: what the core would have decided, also in the columns that no
//! answer shows.

use bytes::Bytes;
use idempotency_ledger::domain::{
    Claim, Claimant, Command, Context, Entry, Key, Policy, Settle, Span, StoreTime, Terms, decide,
};
use idempotency_ledger::store::{Completion, Session};

use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, TestStore, put_new};

on_both_stores!(
    a_guessed_completion_leaves_the_row_that_the_core_would,
    a_guessed_claim_leaves_the_row_that_the_core_would,
    a_completion_keeps_the_longer_retention,
);

fn policy(retention: Span) -> Policy {
    Policy { retention, ..Policy::default() }
}

fn decided(key: &Key, entry: Option<&Entry>, command: &Command, policy: &Policy, now: StoreTime) -> Entry {
    let context = Context {
        policy,
        now,
        token_offset: 0,
        position: 1,
        clock_behind: false,
        clock_before_release: false,
        clock_ahead: false,
    };
    decide(key, entry, command, &context).write.unwrap()
}

fn claim(number: u128) -> Command {
    Command::Claim(Claim {
        claimant: Claimant {
            claim_id: uuid::Uuid::from_u128(number),
            principal: "anonymous".into(),
            owner: format!("owner-{number}"),
        },
        lease: None,
        fingerprint: Bytes::from_static(b"print"),
        occurred_at: None,
        traceparent: "00-trace".into(),
        handed_out: false,
    })
}

fn complete(entry: &Entry) -> Command {
    Command::Settle(entry.token, Settle::Complete { result: Bytes::from_static(b"done"), left_out: false })
}

fn completion(entry: &Entry, retention: Span) -> Completion {
    let result = Bytes::from_static(b"done");
    Completion {
        key: entry.key.clone(),
        token: entry.token,
        result,
        result_dropped: false,
        terms: Terms { retention, ..entry.terms() },
    }
}

/// The same claim of two keys: of one the completion is guessed, of the other it is decided by the core.
struct Twins {
    guessed: Entry,
    by_core: Entry,
}

impl Twins {
    async fn new(session: &mut dyn Session, name: &str, policy: &Policy) -> Twins {
        let one = |id: String| decided(&Key::new("c", "s", &id), None, &claim(1), policy, START);
        let twins =
            Twins { guessed: one(format!("{name}-guessed")), by_core: one(format!("{name}-by-core")) };
        let mut both = [twins.guessed.clone(), twins.by_core.clone()];
        both.sort_by_key(|entry| entry.key.hash());
        put_new(session, START, &both).await;
        twins
    }

    /// Both go the same way.
    async fn step(&mut self, session: &mut dyn Session, command: &Command, policy: &Policy, now: StoreTime) {
        for entry in [&mut self.guessed, &mut self.by_core] {
            *entry = decided(&entry.key, Some(entry), command, policy, now);
            assert_eq!(session.entries().replace(std::slice::from_ref(entry)).await.unwrap(), [true]);
        }
    }
}

async fn a_guessed_completion_leaves_the_row_that_the_core_would(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let policy = Policy::default();
    // A first claim; one that is old enough to stand in the index of what is not COMPLETED; one of unknown
    // effect, with a checkpoint, after an expiry.
    let first = Twins::new(&mut *session, "first", &policy).await;
    let marked = Twins::new(&mut *session, "marked", &policy).await;
    at.execute("UPDATE @entries SET attention = 2 WHERE id LIKE 'marked-%'").await;
    let mut reclaimed = Twins::new(&mut *session, "reclaimed", &policy).await;
    let renew = Settle::Renew {
        lease: None,
        effect_started: true,
        checkpoint: Some(Bytes::from_static(b"half")),
        checkpoint_dropped: false,
    };
    let token = reclaimed.guessed.token;
    reclaimed.step(&mut *session, &Command::Settle(token, renew), &policy, START + Span::from_secs(1)).await;
    reclaimed.step(&mut *session, &claim(2), &policy, START + Span::from_secs(60)).await;
    assert!(reclaimed.guessed.effect_unknown && reclaimed.guessed.prior_effect_started);
    let now = START + Span::from_secs(70);
    at.set_clock(now).await;
    for twins in [first, marked, reclaimed] {
        let done = session.entries().complete(&[completion(&twins.guessed, policy.retention)]).await.unwrap();
        assert!(done[0].is_some());
        let core = decided(&twins.by_core.key, Some(&twins.by_core), &complete(&twins.by_core), &policy, now);
        assert_eq!(session.entries().replace(&[core]).await.unwrap(), [true]);
        let rows = (at.row(twins.guessed.key.id()).await, at.row(twins.by_core.key.id()).await);
        assert_eq!(rows.0, rows.1, "{}", twins.guessed.key.id());
    }
}

async fn a_guessed_claim_leaves_the_row_that_the_core_would(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let policy = Policy::default();
    let [guessed, by_core] = ["guessed", "by-core"].map(|id| Key::new("c", "s", id));
    let row = decided(&guessed, None, &claim(1), &policy, StoreTime(0));
    assert!(session.entries().insert(&[row], StoreTime::MAX).await.unwrap().tokens()[0].is_some());
    // The replacement writes all columns that may ever change.
    let mut entry = decided(&by_core, None, &claim(1), &policy, START);
    put_new(&mut *session, START, std::slice::from_ref(&entry)).await;
    entry.version += 1;
    assert_eq!(session.entries().replace(&[entry]).await.unwrap(), [true]);
    let (mut rows, version) = ((at.row("guessed").await, at.row("by-core").await), "version".to_owned());
    for row in [&mut rows.0, &mut rows.1] {
        row.remove(&version);
        // Postgres leaves it out until the claim is a minute old, so that completions touch no index.
        row.remove("attention");
    }
    assert_eq!(rows.0, rows.1);
}

/// The retention that was fixed at the claim, or the one of now: the longer one.
async fn a_completion_keeps_the_longer_retention(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let (short, long) = (Span::from_days(7), Span::from_days(30));
    let now = START + Span::from_secs(1);
    let mut all = Vec::new();
    for (name, at_claim, at_close) in [("shortened", long, short), ("lengthened", short, long)] {
        all.push((name, Twins::new(&mut *session, name, &policy(at_claim)).await, at_close));
    }
    at.set_clock(now).await;
    for (name, twins, at_close) in all {
        session.entries().complete(&[completion(&twins.guessed, at_close)]).await.unwrap();
        let core = complete(&twins.by_core);
        let core = decided(&twins.by_core.key, Some(&twins.by_core), &core, &policy(at_close), now);
        assert_eq!(core.retain_until, Some(now + long), "{name}");
        assert_eq!(session.entries().replace(&[core]).await.unwrap(), [true]);
        let rows = (at.row(twins.guessed.key.id()).await, at.row(twins.by_core.key.id()).await);
        assert_eq!(rows.0, rows.1, "{name}");
    }
}
