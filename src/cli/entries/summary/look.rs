//! What one look at the ledger has found.

use crate::proto;

/// What one look has found.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    pub(super) summary: proto::SummarizeEntriesResponse,
    pub(super) holds: Vec<proto::Hold>,
    /// The consumers whose own policies are disabled, also those without entries.
    pub(super) disabled: Vec<String>,
}
