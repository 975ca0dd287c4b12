//! `decide`: the rules, by what they find.

use divan::Bencher;
use idempotency_ledger::domain::{Command, Entry};

use crate::measure;
use crate::samples::{claim, complete, completed, decided, failed_often, granted, key};

fn measured(bencher: Bencher<'_, '_>, entry: Option<&Entry>, command: &Command) {
    let key = key();
    measure(bencher, || (&key, entry, command), |(key, entry, command)| decided(key, entry, command));
}

#[divan::bench]
fn claim_of_a_new_key(bencher: Bencher<'_, '_>) {
    measured(bencher, None, &claim(1));
}

#[divan::bench]
fn claim_repeated(bencher: Bencher<'_, '_>) {
    measured(bencher, Some(&granted()), &claim(1));
}

#[divan::bench]
fn claim_of_a_key_in_progress(bencher: Bencher<'_, '_>) {
    measured(bencher, Some(&granted()), &claim(2));
}

#[divan::bench]
fn claim_of_a_completed_key(bencher: Bencher<'_, '_>) {
    measured(bencher, Some(&completed()), &claim(3));
}

#[divan::bench]
fn claim_after_many_attempts(bencher: Bencher<'_, '_>) {
    measured(bencher, Some(&failed_often()), &claim(99));
}

#[divan::bench]
fn complete_of_the_holder(bencher: Bencher<'_, '_>) {
    let entry = granted();
    measured(bencher, Some(&entry), &complete(entry.token));
}

#[divan::bench]
fn complete_of_one_who_lost(bencher: Bencher<'_, '_>) {
    let entry = granted();
    measured(bencher, Some(&entry), &complete(entry.token - 1));
}
