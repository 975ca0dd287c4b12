//! Mangled input, as much as fits into the time (the size is seconds): requests, page tokens,
//! configuration files, keys. Nothing may panic, nothing may be called a bug of the server, and every
//! refusal says what is wrong. The inputs are mutated from sound ones; nothing looks at coverage.

use std::time::{Duration, Instant};

use idempotency_ledger::domain::Key;
use idempotency_ledger::proto::{self, settlement::Action};
use idempotency_ledger::server::config::{Config, Settings};
use prost::Message;
use tonic::Code;

use super::run::Run;
use super::steps::pick;
use crate::harness::details::{acquired, claim, key, refusal};
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

/// The methods, each with messages that it takes.
async fn methods(server: &mut TestServer) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let token = acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner()).token;
    let second = Some(prost_types::Duration { seconds: 1, nanos: 5 });
    let (key, bytes) = (key("c", "1"), bytes::Bytes::from_static(b"some bytes"));
    let claim = proto::ClaimRequest {
        claim_id: "9b2e3a6c-53a1-4c6f-8e07-0b8a3f1d2c4e".into(),
        lease: second,
        fingerprint: bytes.clone(),
        occurred_at: Some(prost_types::Timestamp { seconds: 1_780_000_000, nanos: 7 }),
        wait: second,
        ..claim("c", "2")
    };
    let renew = proto::RenewRequest {
        key: key.clone(),
        token,
        lease: second,
        effect_started: true,
        checkpoint: Some(bytes.clone()),
    };
    let complete = proto::CompleteRequest {
        key: key.clone(),
        token,
        result: bytes.clone(),
        result_left_out: true,
        event_type: String::new(),
    };
    let fail = proto::FailRequest {
        key: key.clone(),
        token,
        kind: 3,
        error: "why".into(),
        retry_after: second,
        event_type: "paid".into(),
    };
    let release = proto::ReleaseRequest {
        key: key.clone(),
        token,
        delay: second,
        unpin_fingerprint: false,
        event_type: String::new(),
    };
    let actions = [
        Action::Renew(renew.clone()),
        Action::Complete(complete.clone()),
        Action::Fail(fail.clone()),
        Action::Release(release.clone()),
    ];
    let settlements = actions.map(|action| proto::Settlement { action: Some(action) }).to_vec();
    let list = proto::ListEntriesRequest {
        filter: Some(proto::EntryFilter { consumer: "c".into(), ..Default::default() }),
        page_size: 3,
        ..Default::default()
    };
    let audit = proto::ListAuditEventsRequest { consumer: "c".into(), page_size: 2, ..Default::default() };
    let policy = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "policy".into(),
        reason: "why".into(),
        policy: Some(proto::Policy { lease: second, max_attempts: Some(3), ..Default::default() }),
        ..Default::default()
    };
    let single = proto::RedriveEntryRequest {
        key: key.clone(),
        request_id: "single".into(),
        reason: "why".into(),
        expected_version: 1,
        ..Default::default()
    };
    let parked = proto::EntryFilter {
        consumer: "c".into(),
        source: "tests".into(),
        id_prefix: "1".into(),
        states: vec![proto::EntryState::Parked.into()],
        causes: vec![proto::ParkCause::Consumer.into()],
        min_age: second,
        owner: "worker".into(),
        error_contains: "poison".into(),
        parked_max_age: second,
        inbox: proto::MessageState::Kept.into(),
        ..Default::default()
    };
    let group = proto::GroupEntriesRequest { filter: Some(parked.clone()), maximum: 3 };
    let many = proto::RedriveEntriesRequest {
        filter: Some(parked),
        operation_id: "many".into(),
        reason: "why".into(),
        rate: 1_000,
        ..Default::default()
    };
    let failed = vec![proto::EntryState::FailedRetryable.into()];
    let park_many = proto::ParkEntriesRequest {
        filter: many.filter.clone().map(|filter| proto::EntryFilter {
            states: failed,
            causes: Vec::new(),
            ..filter
        }),
        operation_id: "park many".into(),
        reason: "why".into(),
        rate: 1_000,
        ..Default::default()
    };
    let resolve_many = proto::ResolveEntriesRequest {
        filter: many.filter.clone(),
        operation_id: "resolve many".into(),
        reason: "why".into(),
        rate: 1_000,
        state: proto::EntryState::FailedTerminal.into(),
        evidence: "seen".into(),
        ..Default::default()
    };
    let in_run = |key: &Option<proto::EntryKey>| {
        key.clone().map(|key| proto::EntryKey { replay_run: "r.1_A-z".into(), ..key })
    };
    let replayed = proto::ClaimRequest { key: in_run(&claim.key), ..claim.clone() };
    let settled = proto::CompleteRequest { key: in_run(&key), ..complete.clone() };
    let looks = [key.clone(), in_run(&key)].map(|key| proto::LookupRequest { key, wait: second });
    let create = proto::CreateReplayRunRequest {
        consumer: "c".into(),
        replay_run: "r.1_A-z".into(),
        request_id: "create".into(),
        reason: "why".into(),
        ends_in: Some(prost_types::Duration { seconds: 3_600, nanos: 0 }),
    };
    let close = proto::CloseReplayRunRequest {
        consumer: "c".into(),
        replay_run: "s".into(),
        request_id: "close".into(),
        reason: "why".into(),
    };
    let runs = proto::ListReplayRunsRequest { consumer: "c".into(), page_size: 1, page_token: "a".into() };
    // Not of the consumers that all else is about.
    let hold = proto::HoldConsumersRequest {
        prefix: "held-".into(),
        all: false,
        request_id: "hold".into(),
        reason: "why".into(),
    };
    let proto::HoldConsumersRequest { prefix, all, reason, .. } = hold.clone();
    let resume = proto::ResumeConsumersRequest { prefix, all, request_id: "resume".into(), reason };
    let holds = proto::ListHoldsRequest { prefix: "held".into() };
    // There are runs to claim in, to close and to list.
    let rebuild = proto::Policy { replay: proto::ReplayMode::Rebuild.into(), ..Default::default() };
    let request_id = "rebuild".into();
    let allow = proto::SetPolicyRequest { policy: Some(rebuild), request_id, ..policy.clone() };
    server.admin.set_policy(allow).await.unwrap();
    server.admin.create_replay_run(create.clone()).await.unwrap();
    let other = proto::CreateReplayRunRequest {
        replay_run: "s".into(),
        request_id: "other".into(),
        ..create.clone()
    };
    server.admin.create_replay_run(other).await.unwrap();
    let effect = proto::ReconcileRow {
        key: key.clone(),
        at: Some(prost_types::Timestamp { seconds: 1_780_000_000, nanos: 5_000 }),
        evidence: proto::EffectEvidence::Spool.into(),
        result: bytes.clone(),
        fingerprint: b"print".to_vec().into(),
    };
    let reconcile =
        proto::ReconcileEntriesRequest { reason: "why".into(), dry_run: false, rows: vec![effect] };
    let row = proto::ImportedEntry { key: key.clone(), result: bytes, ..Default::default() };
    let import = proto::ImportEntriesRequest {
        operation_id: "import".into(),
        reason: "why".into(),
        entries: vec![row],
    };
    vec![
        ("LedgerService/Claim", vec![claim.encode_to_vec(), replayed.encode_to_vec()]),
        ("LedgerService/Renew", vec![renew.encode_to_vec()]),
        ("LedgerService/Complete", vec![complete.encode_to_vec(), settled.encode_to_vec()]),
        ("LedgerService/Fail", vec![fail.encode_to_vec()]),
        ("LedgerService/Release", vec![release.encode_to_vec()]),
        (
            "LedgerService/BatchClaim",
            vec![proto::BatchClaimRequest { requests: vec![claim.clone(), replayed, claim] }.encode_to_vec()],
        ),
        ("LedgerService/Lookup", looks.iter().map(Message::encode_to_vec).collect()),
        (
            "LedgerService/BatchLookup",
            vec![proto::BatchLookupRequest { requests: looks.to_vec() }.encode_to_vec()],
        ),
        ("LedgerService/BatchSettle", vec![proto::BatchSettleRequest { settlements }.encode_to_vec()]),
        ("AdminService/GetEntry", vec![proto::GetEntryRequest { key, ..Default::default() }.encode_to_vec()]),
        ("AdminService/ListEntries", vec![list.encode_to_vec()]),
        ("AdminService/GroupEntries", vec![group.encode_to_vec()]),
        ("AdminService/SummarizeEntries", vec![proto::SummarizeEntriesRequest::default().encode_to_vec()]),
        ("AdminService/ListAuditEvents", vec![audit.encode_to_vec()]),
        ("AdminService/SetPolicy", vec![policy.encode_to_vec()]),
        ("AdminService/RedriveEntry", vec![single.encode_to_vec()]),
        ("AdminService/RedriveEntries", vec![many.encode_to_vec()]),
        ("AdminService/ParkEntries", vec![park_many.encode_to_vec()]),
        ("AdminService/ResolveEntries", vec![resolve_many.encode_to_vec()]),
        ("AdminService/ImportEntries", vec![import.encode_to_vec()]),
        ("AdminService/ReconcileEntries", vec![reconcile.encode_to_vec()]),
        ("AdminService/CreateReplayRun", vec![create.encode_to_vec()]),
        ("AdminService/CloseReplayRun", vec![close.encode_to_vec()]),
        ("AdminService/ListReplayRuns", vec![runs.encode_to_vec()]),
        ("AdminService/HoldConsumers", vec![hold.encode_to_vec()]),
        ("AdminService/ResumeConsumers", vec![resume.encode_to_vec()]),
        ("AdminService/ListHolds", vec![holds.encode_to_vec()]),
    ]
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
    let mut server = TestServer::start_with(Kind::Sqlite, brief()).await;
    let requests = (0..20).map(|number| claim("c", &number.to_string())).collect();
    server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap();
    let list = |page_token: String| proto::ListEntriesRequest {
        filter: Some(proto::EntryFilter { consumer: "c".into(), ..Default::default() }),
        page_size: 3,
        page_token,
        ..Default::default()
    };
    let sound = server.admin.list_entries(list(String::new())).await.unwrap().into_inner().next_page_token;
    assert!(!sound.is_empty());
    let (end, mut sent, mut accepted) = (until(&run), 0_u64, 0_u64);
    while Instant::now() < end {
        // Now and then it is left as it is: then it is accepted, which shows that the others are looked at.
        let sound = sound.clone().into_bytes();
        let mangled = if random.percent(3) { sound } else { mutate(&mut random, &[sound]) };
        let answer = server.admin.list_entries(list(String::from_utf8_lossy(&mangled).into_owned())).await;
        // Without a token an answer begins at the first page.
        let is_token = !mangled.is_empty();
        accepted += u64::from(judge(&run, "ListEntries", &mangled, &answer.map(drop)) && is_token);
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
