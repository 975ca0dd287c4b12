//! Messages: from bytes to commands, and from answers to bytes.

use bytes::Bytes;
use divan::Bencher;
use idempotency_ledger::domain::{Reply, Verdict};
use idempotency_ledger::proto;
use idempotency_ledger::rpc::Limits;
use idempotency_ledger::rpc::measured::{claim_command, complete_command, verdict_message};
use prost::Message;

use crate::measure;
use crate::samples::{claim, claim_request, complete_request, completed, decided, key};

const BATCH: usize = 100;

fn acquired() -> Verdict {
    verdict(decided(&key(), None, &claim(1)).answer)
}

fn duplicate() -> Verdict {
    verdict(decided(&key(), Some(&completed()), &claim(3)).answer)
}

fn verdict(answer: idempotency_ledger::domain::Answer) -> Verdict {
    match answer {
        Ok(Reply::Verdict(verdict)) => verdict,
        other => panic!("no verdict: {other:?}"),
    }
}

#[divan::bench]
fn claim_from_bytes(bencher: Bencher<'_, '_>) {
    let bytes = Bytes::from(claim_request().encode_to_vec());
    measure(bencher, || bytes.clone(), proto::ClaimRequest::decode);
}

#[divan::bench]
fn claim_to_command(bencher: Bencher<'_, '_>) {
    let limits = Limits::default();
    measure(bencher, claim_request, |request| claim_command(request, &limits));
}

#[divan::bench]
fn complete_to_command(bencher: Bencher<'_, '_>) {
    let limits = Limits::default();
    measure(bencher, complete_request, |request| complete_command(request, &limits));
}

#[divan::bench]
fn acquired_to_message(bencher: Bencher<'_, '_>) {
    measure(bencher, acquired, verdict_message);
}

#[divan::bench]
fn completed_to_message(bencher: Bencher<'_, '_>) {
    measure(bencher, duplicate, verdict_message);
}

#[divan::bench]
fn acquired_to_bytes(bencher: Bencher<'_, '_>) {
    let message = verdict_message(acquired());
    measure(bencher, || &message, Message::encode_to_vec);
}

#[divan::bench]
fn batch_from_bytes(bencher: Bencher<'_, '_>) {
    let requests = vec![claim_request(); BATCH];
    let bytes = Bytes::from(proto::BatchClaimRequest { requests }.encode_to_vec());
    measure(bencher, || bytes.clone(), proto::BatchClaimRequest::decode);
}

#[divan::bench]
fn batch_to_bytes(bencher: Bencher<'_, '_>) {
    let message = proto::BatchClaimResponse { responses: vec![verdict_message(acquired()); BATCH] };
    measure(bencher, || &message, Message::encode_to_vec);
}
