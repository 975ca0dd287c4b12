//! The metrics that have a label `consumer`.

use prometheus::{Error, HistogramVec, IntCounterVec, Registry};

use super::catalogue::{
    ATTEMPTS, CLAIMS, DOUBLED, FAILED, HELD, INBOX_STORED, LOOKUPS, PARKED, RECLAIMS, RELEASES, REPLAYS,
    SETTLEMENTS,
};

/// The metrics that have a label `consumer`.
pub(super) struct Families {
    pub(super) claims: IntCounterVec,
    pub(super) failed: IntCounterVec,
    pub(super) settlements: IntCounterVec,
    pub(super) held: HistogramVec,
    pub(super) attempts: HistogramVec,
    pub(super) releases: HistogramVec,
    pub(super) reclaims: IntCounterVec,
    pub(super) doubled: IntCounterVec,
    pub(super) parked: IntCounterVec,
    pub(super) replays: IntCounterVec,
    pub(super) stored: IntCounterVec,
    pub(super) lookups: IntCounterVec,
}

impl Families {
    pub(super) fn new(registry: &Registry) -> Result<Families, Error> {
        Ok(Families {
            claims: CLAIMS.counters(registry)?,
            failed: FAILED.counters(registry)?,
            settlements: SETTLEMENTS.counters(registry)?,
            held: HELD.histograms(registry)?,
            attempts: ATTEMPTS.histograms(registry)?,
            releases: RELEASES.histograms(registry)?,
            reclaims: RECLAIMS.counters(registry)?,
            doubled: DOUBLED.counters(registry)?,
            parked: PARKED.counters(registry)?,
            replays: REPLAYS.counters(registry)?,
            stored: INBOX_STORED.counters(registry)?,
            lookups: LOOKUPS.counters(registry)?,
        })
    }
}
