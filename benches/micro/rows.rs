//! Rows: from an entry to what is stored, and back.

use divan::Bencher;
use idempotency_ledger::domain::Entry;
use idempotency_ledger::store::MeasuredRows;

use crate::measure;
use crate::samples::{completed, failed_often, granted};

fn to_row(bencher: Bencher<'_, '_>, entry: &Entry) {
    let rows = MeasuredRows::for_entries(std::slice::from_ref(entry));
    measure(bencher, || entry, |entry| rows.row(entry));
}

fn from_row(bencher: Bencher<'_, '_>, entry: &Entry) {
    let rows = MeasuredRows::for_entries(std::slice::from_ref(entry));
    let stored = || rows.row(entry).expect("what was learnt is enough");
    measure(bencher, stored, |row| rows.entry(row).expect("what was stored can be read"));
}

#[divan::bench]
fn granted_to_row(bencher: Bencher<'_, '_>) {
    to_row(bencher, &granted());
}

#[divan::bench]
fn granted_from_row(bencher: Bencher<'_, '_>) {
    from_row(bencher, &granted());
}

#[divan::bench]
fn completed_to_row(bencher: Bencher<'_, '_>) {
    to_row(bencher, &completed());
}

#[divan::bench]
fn completed_from_row(bencher: Bencher<'_, '_>) {
    from_row(bencher, &completed());
}

#[divan::bench]
fn failed_often_to_row(bencher: Bencher<'_, '_>) {
    to_row(bencher, &failed_often());
}

#[divan::bench]
fn failed_often_from_row(bencher: Bencher<'_, '_>) {
    from_row(bencher, &failed_often());
}
