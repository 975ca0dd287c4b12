//! The table of the right that each RPC needs.

use super::rights::Right;

/// An RPC of the ledger's services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rpc {
    /// Its name.
    pub name: &'static str,
    /// The right that it needs on the consumers that it names, or on all consumers if it does not name any.
    pub needs: Right,
    /// Whether it is a stream, which may be long-lived.
    pub streams: bool,
}

const STREAMS: [&str; 4] = ["RedriveEntries", "ParkEntries", "ResolveEntries", "ImportEntries"];

const ROWS: &[(&str, Right)] = &[
    ("Claim", Right::Claim),
    ("BatchClaim", Right::Claim),
    ("Lookup", Right::Claim),
    ("BatchLookup", Right::Claim),
    ("ClaimNext", Right::Claim),
    ("Store", Right::Store),
    ("BatchStore", Right::Store),
    ("Complete", Right::Settle),
    ("Fail", Right::Settle),
    ("Release", Right::Settle),
    ("Renew", Right::Settle),
    ("BatchSettle", Right::Settle),
    ("GetEntry", Right::Read),
    ("ListEntries", Right::Read),
    ("GroupEntries", Right::Read),
    ("SummarizeEntries", Right::Read),
    ("GetPolicy", Right::Read),
    ("ListPolicies", Right::Read),
    ("ListPolicyVersions", Right::Read),
    ("ListAuditEvents", Right::Read),
    ("GetRetentionStatus", Right::Read),
    ("ListReplayRuns", Right::Read),
    ("ListHolds", Right::Read),
    ("GetMessage", Right::Admin),
    ("RedriveEntry", Right::Admin),
    ("ParkEntry", Right::Admin),
    ("ResolveEntry", Right::Admin),
    ("DeleteEntry", Right::Admin),
    ("RedriveEntries", Right::Admin),
    ("ParkEntries", Right::Admin),
    ("ResolveEntries", Right::Admin),
    ("ImportEntries", Right::Admin),
    ("ReconcileEntries", Right::Admin),
    ("SetPolicy", Right::Admin),
    ("DeletePolicy", Right::Admin),
    ("RaiseTokenOffset", Right::Admin),
    ("CreateReplayRun", Right::Admin),
    ("CloseReplayRun", Right::Admin),
    ("HoldConsumers", Right::Admin),
    ("ResumeConsumers", Right::Admin),
];

/// RPCs whose requests may set `validate_only`: those change nothing, and need only the right to read.
const LOOKS: [&str; 2] = ["SetPolicy", "RaiseTokenOffset"];

impl Rpc {
    /// The right that a request with `validate_only` needs. `None` if every request of this RPC needs the usual right.
    #[must_use]
    pub fn looks(self) -> Option<Right> {
        LOOKS.contains(&self.name).then_some(Right::Read)
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Rpc> {
        ROWS.iter().map(|&(name, needs)| Rpc { name, needs, streams: STREAMS.contains(&name) })
    }

    /// The RPC of this name; `None` if it does not exist.
    #[must_use]
    pub fn of(name: &str) -> Option<Rpc> {
        Rpc::all().find(|rpc| rpc.name == name)
    }
}
