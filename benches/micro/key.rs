//! A key: the digests of its parts.

use divan::Bencher;
use idempotency_ledger::domain::Key;

use crate::measure;
use crate::samples::{CONSUMER, ID, SOURCE, key};

#[divan::bench]
fn new(bencher: Bencher<'_, '_>) {
    measure(bencher, || (CONSUMER, SOURCE, ID), |(consumer, source, id)| Key::new(consumer, source, id));
}

#[divan::bench]
fn idempotency_key(bencher: Bencher<'_, '_>) {
    let key = key();
    measure(bencher, || &key, Key::idempotency_key);
}
