//! What is written before and after an effect without a claim, and what an outcome says of it.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::world::{Reply, Script, verdict};
use crate::{
    Advice, EffectResult, Key, Outcome, Steer,
    calls::Failure,
    proto::{self as pb, claim_response::Verdict},
    spool::{Spool, SpoolFailed, SpoolFile, Writer},
};

const LATER: Advice = Advice::RetryLater { after: Duration::from_secs(1) };

pub(super) fn away() -> Outcome {
    Outcome { away: true, ..Outcome::new(LATER).because("NO_ANSWER (UNAVAILABLE)") }
}

pub(super) fn key() -> Key {
    Key::of("shop", "order-1")
}

/// The fields of a line in their order: a flat object of numbers and texts.
pub(super) fn fields(line: &str) -> Vec<(String, String)> {
    let inner = line.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
    let (mut parts, mut part, mut quoted, mut escape) = (Vec::new(), String::new(), false, false);
    for letter in inner.chars() {
        match letter {
            _ if escape => {
                part.push(letter);
                escape = false;
            }
            '\\' => escape = true,
            '"' => quoted = !quoted,
            ':' | ',' if !quoted => parts.push(std::mem::take(&mut part)),
            other => part.push(other),
        }
    }
    parts.push(part);
    parts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

pub(super) fn field(line: &str, name: &str) -> Option<String> {
    fields(line).into_iter().find(|(found, _)| found == name).map(|(_, text)| text)
}

/// A file that notes what is done to it, and fails from one step on.
#[derive(Clone, Default)]
struct Steps(Arc<Mutex<Noted>>);

#[derive(Default)]
struct Noted {
    steps: Vec<String>,
    lines: Vec<String>,
    /// The step that fails first; 0: no step fails.
    fails: usize,
    /// How many bytes of a line are not written.
    cut: usize,
}

impl Steps {
    fn failing(fails: usize) -> Self {
        Self(Arc::new(Mutex::new(Noted { fails, ..Noted::default() })))
    }

    fn spool(&self) -> Spool {
        Spool::over(Writer::new(Box::new(self.clone()), || 1_780_000_000_000_000))
    }

    fn step(&self, name: &str) -> io::Result<()> {
        let mut noted = self.0.lock().unwrap();
        noted.steps.push(name.to_owned());
        let fails = noted.fails > 0 && noted.steps.len() >= noted.fails;
        if fails { Err(io::Error::other("no space left on device")) } else { Ok(()) }
    }

    fn steps(&self) -> String {
        self.0.lock().unwrap().steps.join(" ")
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().lines.clone()
    }

    fn events(&self) -> String {
        let events: Vec<String> = self.lines().iter().map(|line| field(line, "event").unwrap()).collect();
        events.join(" ")
    }
}

impl SpoolFile for Steps {
    fn append(&mut self, line: &[u8]) -> io::Result<usize> {
        let whole = std::str::from_utf8(line).unwrap().strip_suffix('\n').unwrap();
        assert!(!whole.contains('\n'), "{whole}");
        self.0.lock().unwrap().lines.push(whole.to_owned());
        self.step(&field(whole, "event").unwrap())?;
        Ok(line.len() - self.0.lock().unwrap().cut)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.step("sync")
    }
}

async fn never() -> Result<(), Steer> {
    panic!("the effect ran")
}

#[tokio::test(start_paused = true)]
async fn only_a_claim_that_was_not_answered_is_away() {
    let refusal = |code, reason: Option<&'static str>| {
        move || {
            Reply::Refuse(Failure { reason: reason.map(str::to_owned), ..Failure::local(code, "for people") })
        }
    };
    for (code, reason, away) in [
        ("UNAVAILABLE", None, true),
        ("DEADLINE_EXCEEDED", None, true),
        ("UNAVAILABLE", Some("STORE_UNAVAILABLE"), true),
        ("DEADLINE_EXCEEDED", Some("DEADLINE_EXCEEDED"), true),
        ("INTERNAL", None, false),
        ("UNKNOWN", None, false),
        ("CANCELLED", None, false),
        ("FAILED_PRECONDITION", Some("CONSUMER_DISABLED"), false),
        ("PERMISSION_DENIED", Some("CONSUMER_NOT_ALLOWED"), false),
        ("RESOURCE_EXHAUSTED", Some("OVERLOADED"), false),
    ] {
        // More than the repeats of one Claim.
        let script = Script::of(std::iter::repeat_with(refusal(code, reason)).take(100));
        let found = script.ledger().process(key(), |_| never()).await.unwrap();
        assert_eq!(found.away, away, "{code} {reason:?}");
    }
    for (advice, answer) in [
        (pb::Advice::RetryLater, Verdict::InProgress(pb::InProgress::default())),
        (pb::Advice::DeadLetter, Verdict::Parked(pb::Parked::default())),
    ] {
        let script = Script::of([verdict(advice as i32, Some(answer))]);
        assert!(!script.ledger().process(key(), |_| never()).await.unwrap().away);
    }
}

#[tokio::test]
async fn beginning_is_synced_before_the_effect() {
    for (fails, steps, advice, unknown) in [
        (0, "begin sync effect end sync", Advice::Ack, false),
        (1, "begin", LATER, false),
        (2, "begin sync", LATER, false),
        (4, "begin sync effect end", LATER, true),
        (5, "begin sync effect end sync", LATER, true),
    ] {
        let file = Steps::failing(fails);
        let (spool, noting) = (file.spool(), file.clone());
        let effect = async move || {
            let _fails_later = noting.step("effect");
            Ok("paid")
        };
        let found = spool.process(away(), "payments", key(), effect).await.unwrap();
        assert_eq!(file.steps(), steps);
        assert_eq!((found.advice, found.effect_unknown, found.away), (advice, unknown, true));
        // Where the effect has happened its result is known, whatever the disk says.
        assert_eq!(found.result.is_some(), steps.contains("effect"));
        if fails == 0 {
            continue;
        }
        assert_eq!(found.reason.as_deref(), Some("SPOOL_FAILED"));
        assert!(found.detail.contains("no space left on device"), "{}", found.detail);
        assert!(found.error.unwrap().is::<SpoolFailed>());
        // What the system has lost of the file is not known: it is not written any more, though it could be.
        file.0.lock().unwrap().fails = 0;
        let again = spool.process(away(), "payments", key(), never).await.unwrap();
        assert_eq!((again.reason.as_deref(), &*file.steps()), (Some("SPOOL_FAILED"), steps));
    }
}

#[tokio::test]
async fn short_write_is_a_failure() {
    let file = Steps::default();
    file.0.lock().unwrap().cut = 3;
    let found = file.spool().process(away(), "payments", key(), never).await.unwrap();
    assert!(found.detail.contains("bytes were written"), "{}", found.detail);
}

#[tokio::test]
async fn answer_of_the_ledger_opens_nothing() {
    let file = Steps::default();
    let spool = file.spool();
    for found in [
        Outcome { replayed: true, ..Outcome::new(Advice::Ack) },
        Outcome::new(LATER).because("in_progress"),
        Outcome::new(Advice::DeadLetter).because("parked"),
        Outcome::new(LATER).because("NO_ANSWER (INTERNAL)"),
    ] {
        let same = spool.process(found.clone(), "payments", key(), never).await.unwrap();
        assert_eq!(format!("{same:?}"), format!("{found:?}"));
    }
    for opened in [key().in_replay_run("run").unwrap(), Key::of("shop", "")] {
        let same = spool.process(away(), "payments", opened, never).await.unwrap();
        assert_eq!(format!("{same:?}"), format!("{:?}", away()));
    }
    assert_eq!(file.steps(), "");
}

#[tokio::test]
async fn error_says_whether_the_effect_happened() {
    let after = |millis| Advice::RetryLater { after: Duration::from_millis(millis) };
    for (steer, events, advice, unknown) in [
        (Steer::retry_after(Duration::from_secs(7)), "begin none", after(7_000), false),
        (Steer::retry_after(Duration::from_millis(1)), "begin none", after(50), false),
        (Steer::terminal("never"), "begin none", LATER, false),
        (Steer::give_back(), "begin none", LATER, false),
        (Steer::doubtful(), "begin", LATER, true),
        (Steer::park("look"), "begin", Advice::DeadLetter, true),
        (Steer::from(io::Error::other("secret")), "begin", Advice::DeadLetter, true),
    ] {
        let file = Steps::default();
        let unexpected = matches!(steer, Steer::Unexpected(_));
        let effect = async move || Err::<(), _>(steer);
        let found = file.spool().process(away(), "payments", key(), effect).await.unwrap();
        assert_eq!(file.events(), events);
        assert_eq!((found.advice, found.effect_unknown, found.away), (advice, unknown, true));
        assert_eq!(found.error.is_some(), unexpected);
        assert!(!found.reason.unwrap().contains("secret"));
    }
}

#[tokio::test]
async fn panic_leaves_the_beginning_alone() {
    let file = Steps::default();
    let found = file.spool().process(away(), "payments", key(), never).await.unwrap();
    assert_eq!((found.advice, found.reason.as_deref()), (Advice::DeadLetter, Some("panic")));
    assert!(found.effect_unknown);
    assert_eq!(file.events(), "begin");
}

#[tokio::test]
async fn dropped_future_cancels_neither_the_effect_nor_its_end() {
    let file = Steps::default();
    let (running, runs) = tokio::sync::oneshot::channel();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let spool = file.spool();
    let effect = async move || {
        running.send(()).unwrap();
        gone.await.unwrap();
        Ok(())
    };
    tokio::select! {
        _ = spool.process(away(), "payments", key(), effect) => unreachable!("the effect waits"),
        run = runs => run.unwrap(),
    }
    go.send(()).unwrap();
    while file.events() != "begin end" {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn none_that_cannot_be_written_changes_no_advice() {
    let effect = async || Err::<(), _>(Steer::retry());
    let found = Steps::failing(3).spool().process(away(), "payments", key(), effect).await.unwrap();
    assert_eq!((found.advice, found.effect_unknown), (LATER, false));
}

#[tokio::test]
async fn result_beyond_the_bound_is_left_out() {
    for (result, stored, dropped) in [
        (EffectResult::from(vec![0; 16_384]), true, false),
        (EffectResult::from(vec![0; 16_385]), false, true),
        (EffectResult::default(), false, false),
        (EffectResult::left_out(), false, true),
    ] {
        let file = Steps::default();
        let effect = async move || Ok(result);
        let found = file.spool().process(away(), "payments", key(), effect).await.unwrap();
        assert_eq!((found.advice, found.result_dropped), (Advice::Ack, dropped));
        let end = &file.lines()[1];
        assert_eq!(field(end, "result_base64").is_some(), stored);
        assert!(end.len() < 65_536);
    }
}

#[tokio::test]
async fn lines_have_separate_instants_while_the_clock_stands_still() {
    let file = Steps::default();
    let spool = file.spool();
    for _ in 0..100 {
        spool.process(away(), "payments", key(), async || Ok(())).await.unwrap();
    }
    let instants: Vec<String> = file.lines().iter().map(|line| field(line, "at").unwrap()).collect();
    let sorted: Vec<String> = instants.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect();
    assert_eq!((instants.len(), &instants), (200, &sorted));
    assert_eq!(instants[0], "2026-05-28T20:26:40.000000Z");
    let rows: BTreeSet<_> = file.lines().iter().map(|line| field(line, "row").unwrap()).collect();
    assert_eq!(rows.len(), 100);
}

#[tokio::test]
async fn consumer_beyond_its_bound_is_refused() {
    let file = Steps::default();
    for consumer in [String::new(), "c".repeat(129)] {
        let error = file.spool().process(away(), &consumer, key(), never).await.unwrap_err();
        assert_eq!(error.field, "consumer");
    }
    assert_eq!(file.steps(), "");
}
