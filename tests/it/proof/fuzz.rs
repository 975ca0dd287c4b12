//! Mangled input, as much as fits into the time (the size is seconds): requests, page tokens,
//! configuration files, keys. Nothing may panic, nothing may be called a bug of the server, and every
//! refusal says what is wrong. The inputs are mutated from sound ones; nothing looks at coverage.

mod requests;

use std::time::{Duration, Instant};

use idempotency_ledger::domain::{Key, Policy};
use idempotency_ledger::proto;
use idempotency_ledger::server::config::{Config, Settings};
use tonic::Code;

use self::requests::{methods, stored_message};
use super::run::Run;
use super::steps::pick;
use crate::harness::details::{claim, refusal};
use crate::harness::random::Random;
use crate::harness::raw::{channel, send};
use crate::harness::server::{Kind, Setup, TestServer};

const SECONDS: u64 = 10;

pub(super) fn until(run: &Run) -> Instant {
    Instant::now() + Duration::from_secs(run.size)
}

/// One to a few things done to bytes.
pub(super) fn mutate(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = pick(random, seeds).clone();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => {
                bytes[at] = *pick(random, &[0, 0x7f, 0x80, 0xff, b'"', b'\n', b'-', b'9'])
            }
            2 => bytes.truncate(at),
            3 => bytes.insert(at, random.next() as u8),
            4 => {
                let other = pick(random, seeds);
                let from = random.below(other.len() as u64 + 1) as usize;
                bytes.splice(at.., other[from..].iter().copied());
            }
            5 => {
                let part: Vec<u8> = bytes[at..].iter().take(32).copied().collect();
                bytes.splice(at..at, part);
            }
            6 => bytes.splice(at..at, std::iter::repeat_n(b'x', random.below(600) as usize)).for_each(drop),
            _ => bytes.splice(at..at, [0xff; 10]).for_each(drop),
        }
    }
    bytes
}

/// Calls that wait are soon over.
fn brief() -> Setup {
    Setup { max_wait: std::time::Duration::from_millis(20), ..Setup::default() }
}

/// Every refusal has a published reason (`refusal` asserts it), and none is the server's fault.
fn judge(run: &Run, method: &str, bytes: &[u8], answer: &Result<(), tonic::Status>) -> bool {
    let Err(status) = answer else { return true };
    let known = refusal(status);
    if matches!(known.code, Code::Internal | Code::Unknown | Code::Unavailable | Code::Unimplemented) {
        run.fail(format!("{method} was answered {status:?}"), &[("request", format!("{bytes:?}"))]);
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mangled_requests() {
    let mut run = Run::new("fuzz-requests", SECONDS);
    let mut random = Random::new(run.seed);
    let mut server = TestServer::start_with(Kind::Sqlite, brief()).await;
    let methods = methods(&mut server).await;
    let channel = channel(&server).await;
    let (end, mut sent, mut accepted) = (until(&run), 0_u64, 0_u64);
    while Instant::now() < end {
        let calls = (0..32).map(|_| {
            let (method, seeds) = pick(&mut random, &methods);
            let bytes = mutate(&mut random, seeds);
            let channel = channel.clone();
            async move { (send(&channel, method, bytes.clone()).await, method, bytes) }
        });
        for (answer, method, bytes) in futures_util::future::join_all(calls.collect::<Vec<_>>()).await {
            accepted += u64::from(judge(&run, method, &bytes, &answer));
            sent += 1;
        }
        let elapsed = run.elapsed().as_secs();
        run.progress(elapsed, format!("{sent} requests"));
    }
    assert!(accepted > 0 && accepted < sent);
    run.summary(format!("{sent} requests, {accepted} of them accepted"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mangled_page_tokens() {
    let mut run = Run::new("fuzz-page-tokens", SECONDS);
    let mut random = Random::new(run.seed);
    let inbox = Policy { inbox: true, ..Policy::default() };
    let mut server = TestServer::start_with(Kind::Sqlite, brief().with("c", inbox)).await;
    let requests = (0..20).map(|number| claim("c", &number.to_string())).collect();
    server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap();
    let requests = (0..20).map(|number| stored_message(&number.to_string())).collect();
    server.client.batch_store(proto::BatchStoreRequest { requests }).await.unwrap();
    // All entries, and those whose message is kept.
    let filters = [proto::MessageState::Unspecified, proto::MessageState::Kept];
    let list = |which: usize, page_token: String| proto::ListEntriesRequest {
        filter: Some(proto::EntryFilter {
            consumer: "c".into(),
            inbox: filters[which].into(),
            ..Default::default()
        }),
        page_size: 3,
        page_token,
        ..Default::default()
    };
    let mut tokens = Vec::new();
    for which in 0..filters.len() {
        let first = server.admin.list_entries(list(which, String::new())).await.unwrap().into_inner();
        assert!(!first.next_page_token.is_empty());
        tokens.push(first.next_page_token.into_bytes());
    }
    assert_ne!(tokens[0], tokens[1], "a page token is bound to the filter of its list");
    let (end, mut sent, mut accepted) = (until(&run), 0_u64, 0_u64);
    while Instant::now() < end {
        // Now and then it is left as it is: then it is accepted, which shows that the others are looked at.
        let (which, of) = (random.below(2) as usize, random.below(2) as usize);
        let mangled = if random.percent(3) { tokens[of].clone() } else { mutate(&mut random, &tokens) };
        let answer =
            server.admin.list_entries(list(which, String::from_utf8_lossy(&mangled).into_owned())).await;
        // Without a token an answer begins at the first page.
        let is_token = !mangled.is_empty();
        let taken = judge(&run, "ListEntries", &mangled, &answer.map(drop)) && is_token;
        if taken && mangled != tokens[which] {
            run.fail("a page token of another list was accepted", &[("token", format!("{mangled:?}"))]);
        }
        accepted += u64::from(taken);
        sent += 1;
        let elapsed = run.elapsed().as_secs();
        run.progress(elapsed, format!("{sent} tokens"));
    }
    assert!(accepted > 0 && accepted < sent, "{accepted} of {sent} page tokens were accepted");
    run.summary(format!("{sent} page tokens, {accepted} of them accepted"));
    server.stop().await;
}

#[test]
fn mangled_configurations() {
    const SOUND: &str = "listen = \"127.0.0.1:1\"\nqueue_max = 4096\ndeadline_max = \"30s\"\n[policy]\nlease = \"30s\"\n\
        retention = \"7d\"\nmax_redelivery_window = \"3d\"\n\
        backoff = { initial = \"1s\", multiplier = 2.5, max = \"5m\", jitter = 0.2 }\n[consumers.\"a b\"]\n\
        on_expiry = \"PARK\"\nmax_attempts = 3\nfingerprint = \"REQUIRE\"\naccepted_risk = \"tested\"\n";
    let mut run = Run::new("fuzz-configuration", SECONDS);
    let mut random = Random::new(run.seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.toml");
    let (end, mut tried, mut accepted) = (until(&run), 0_u64, 0_u64);
    while Instant::now() < end {
        let text = mutate(&mut random, &[SOUND.as_bytes().to_vec()]);
        std::fs::write(&path, &text).unwrap();
        match Config::load(Settings::default(), Some(&path)) {
            Ok(_) => accepted += 1,
            Err(problems) if problems.is_empty() || problems.iter().any(String::is_empty) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                run.fail("refused without a reason", &[("ledger.toml", text)]);
            }
            Err(_) => {}
        }
        tried += 1;
        let elapsed = run.elapsed().as_secs();
        run.progress(elapsed, format!("{tried} files"));
    }
    assert!(accepted > 0 && accepted < tried);
    run.summary(format!("{tried} configuration files, {accepted} of them accepted"));
}

/// Two keys are the same exactly if their parts are: also where the parts are cut at other places.
#[test]
fn keys_from_the_same_letters() {
    let mut run = Run::new("fuzz-keys", SECONDS);
    let mut random = Random::new(run.seed);
    let (end, mut pairs, mut equal) = (until(&run), 0_u64, 0_u64);
    let letters = ["a", "b", "\u{0}", "\u{1}", "ab", "\u{e9}", "e\u{301}", " ", "\u{10ffff}", "aaaa"];
    while Instant::now() < end {
        for _ in 0..1_000 {
            let text: Vec<&str> = (0..random.below(7)).map(|_| *pick(&mut random, &letters)).collect();
            let cut = |random: &mut Random| {
                let (one, other) = (
                    random.below(text.len() as u64 + 1) as usize,
                    random.below(text.len() as u64 + 1) as usize,
                );
                let (one, other) = (one.min(other), one.max(other));
                (text[..one].concat(), text[one..other].concat(), text[other..].concat())
            };
            let (one, other) = (cut(&mut random), cut(&mut random));
            let (left, right) = (Key::new(&one.0, &one.1, &one.2), Key::new(&other.0, &other.1, &other.2));
            let same = one == other;
            if (left == right) != same
                || (left.hash() == right.hash()) != same
                || (left.idempotency_key() == right.idempotency_key()) != same
            {
                run.fail(format!("{one:?} and {other:?}"), &[]);
            }
            pairs += 1;
            equal += u64::from(same);
        }
        let elapsed = run.elapsed().as_secs();
        run.progress(elapsed, format!("{pairs} pairs"));
    }
    assert!(equal > 0 && equal < pairs);
    run.summary(format!("{pairs} pairs of keys, {equal} of them equal"));
}
