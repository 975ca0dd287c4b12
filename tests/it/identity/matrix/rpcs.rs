//! The RPCs that the server offers, walked from the descriptors of its services; and what each of them needs.

use idempotency_ledger::proto;
use prost::Message as _;
use prost_types::FileDescriptorSet;
use prost_types::method_options::IdempotencyLevel;

/// The rights, as the file has them.
pub(super) const RIGHTS: [&str; 5] = ["claim", "settle", "read", "admin", "store"];

/// An RPC of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Method {
    pub(super) service: String,
    pub(super) name: String,
    /// Whether its descriptor says that it changes nothing.
    pub(super) reads: bool,
    pub(super) streams: bool,
}

impl Method {
    pub(super) fn path(&self) -> String {
        format!("/{}/{}", self.service, self.name)
    }

    /// Whether its answers end only with the call.
    pub(super) fn never_ends(&self) -> bool {
        self.name == "Watch"
    }

    fn is_of_consumers(&self) -> bool {
        self.service.ends_with(".LedgerService")
    }
}

fn walked(descriptors: &[u8]) -> Vec<Method> {
    let set = FileDescriptorSet::decode(descriptors).unwrap();
    let mut methods = Vec::new();
    for file in &set.file {
        for service in &file.service {
            methods.extend(service.method.iter().map(|method| {
                Method {
                    service: format!("{}.{}", file.package(), service.name()),
                    name: method.name().to_owned(),
                    reads: method.options.as_ref().is_some_and(|options| {
                        options.idempotency_level() == IdempotencyLevel::NoSideEffects
                    }),
                    streams: method.client_streaming() || method.server_streaming(),
                }
            }));
        }
    }
    assert!(!methods.is_empty(), "a descriptor without a method");
    methods
}

/// The RPCs of the ledger's own two services.
pub(super) fn ours() -> Vec<Method> {
    walked(proto::FILE_DESCRIPTOR_SET)
}

pub(super) fn health() -> Vec<Method> {
    walked(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// Reflection in both of its versions.
pub(super) fn reflection() -> Vec<Method> {
    let sets =
        [tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET, tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET];
    sets.into_iter().flat_map(walked).collect()
}

/// How a call asks for what its RPC offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    Usual,
    /// With `validate_only`.
    ValidateOnly,
    /// With `dry_run`.
    DryRun,
    /// By the hash of a key.
    ByHash,
    /// By a key, where the RPC asks for a consumer usually.
    ByKey,
    /// In a replay run that has the name of another tenant's consumer.
    InRun,
}

/// What a call of an RPC names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Consumer,
    /// Without the name of a consumer it asks for all of them.
    ConsumerOrAll,
    /// What the names of consumers begin with.
    Prefix,
    /// The same; without a prefix it asks for all of them.
    PrefixOrAll,
    Nothing,
}

use Names::{Consumer, ConsumerOrAll, Nothing, Prefix, PrefixOrAll};
use Way::{ByHash, ByKey, DryRun, InRun, Usual, ValidateOnly};

/// Each RPC: what it names, and the ways to ask.
const ROWS: &[(&str, Names, &[Way])] = &[
    ("Claim", Consumer, &[Usual, InRun]),
    ("Renew", Consumer, &[Usual, InRun]),
    ("Complete", Consumer, &[Usual, InRun]),
    ("Fail", Consumer, &[Usual, InRun]),
    ("Release", Consumer, &[Usual, InRun]),
    ("BatchClaim", Consumer, &[Usual, InRun]),
    ("BatchSettle", Consumer, &[Usual, InRun]),
    ("Lookup", Consumer, &[Usual, InRun]),
    ("BatchLookup", Consumer, &[Usual, InRun]),
    ("Store", Consumer, &[Usual]),
    ("BatchStore", Consumer, &[Usual]),
    ("ClaimNext", Consumer, &[Usual]),
    ("GetEntry", Consumer, &[Usual, InRun, ByHash]),
    ("GetMessage", Consumer, &[Usual]),
    ("ListEntries", ConsumerOrAll, &[Usual, InRun]),
    ("GroupEntries", ConsumerOrAll, &[Usual, InRun]),
    ("SummarizeEntries", ConsumerOrAll, &[Usual]),
    ("RedriveEntry", Consumer, &[Usual, InRun]),
    ("ParkEntry", Consumer, &[Usual, InRun]),
    ("ResolveEntry", Consumer, &[Usual, InRun]),
    ("DeleteEntry", Consumer, &[Usual, InRun, ByHash]),
    ("RedriveEntries", Consumer, &[Usual, InRun, DryRun]),
    ("ParkEntries", Consumer, &[Usual, InRun, DryRun]),
    ("ResolveEntries", Consumer, &[Usual, InRun, DryRun]),
    ("ImportEntries", Consumer, &[Usual]),
    ("ReconcileEntries", Consumer, &[Usual, DryRun]),
    ("GetPolicy", Consumer, &[Usual]),
    ("ListPolicies", Nothing, &[Usual]),
    ("SetPolicy", Consumer, &[Usual, ValidateOnly]),
    ("DeletePolicy", Consumer, &[Usual]),
    ("ListPolicyVersions", Consumer, &[Usual]),
    ("ListAuditEvents", ConsumerOrAll, &[Usual, ByKey]),
    ("GetRetentionStatus", Nothing, &[Usual]),
    ("CreateReplayRun", Consumer, &[Usual]),
    ("CloseReplayRun", Consumer, &[Usual]),
    ("ListReplayRuns", Consumer, &[Usual]),
    ("HoldConsumers", Prefix, &[Usual]),
    ("ResumeConsumers", Prefix, &[Usual]),
    ("ListHolds", PrefixOrAll, &[Usual]),
    ("RaiseTokenOffset", Nothing, &[Usual, ValidateOnly]),
];

/// What a call needs, by docs/contract.md, section 14.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The right on one consumer.
    One,
    /// The right on all consumers whose names begin with this one.
    Prefix,
    /// The right on `*`.
    All,
    /// The call names no consumer where it must.
    Invalid,
}

fn row(method: &Method) -> (Names, &'static [Way]) {
    let row = ROWS.iter().find(|(name, ..)| *name == method.name);
    let (_, names, ways) = row.unwrap_or_else(|| panic!("{} has no row", method.path()));
    (*names, ways)
}

pub(super) fn ways(method: &Method) -> &'static [Way] {
    row(method).1
}

/// RPCs whose requests select entries by a filter.
const OF_A_FILTER: [&str; 5] =
    ["ListEntries", "GroupEntries", "RedriveEntries", "ParkEntries", "ResolveEntries"];

/// Whether the answer depends on the id of an entry.
pub(super) fn names_an_entry(way: Way, method: &Method) -> bool {
    let by_key = row(method).1.contains(&InRun) && !OF_A_FILTER.contains(&method.name.as_str());
    let rows = ["ImportEntries", "ReconcileEntries", "Store", "BatchStore", "GetMessage"];
    by_key || rows.contains(&method.name.as_str()) || matches!(way, ByHash | ByKey)
}

/// The right that a call needs.
pub(super) fn right(method: &Method, way: Way) -> &'static str {
    match method.name.as_str() {
        "Claim" | "BatchClaim" | "Lookup" | "BatchLookup" | "ClaimNext" => "claim",
        "Store" | "BatchStore" => "store",
        _ if method.is_of_consumers() => "settle",
        _ if method.reads || way == ValidateOnly => "read",
        _ => "admin",
    }
}

/// What the right is needed on.
pub(super) fn scope(method: &Method, way: Way, consumer: &str) -> Scope {
    match (row(method).0, consumer) {
        _ if way == ByHash => Scope::All,
        (Nothing, _) => Scope::All,
        (ConsumerOrAll, "") if !matches!(way, ByKey | InRun) => Scope::All,
        (PrefixOrAll, "") => Scope::All,
        (Consumer | ConsumerOrAll | Prefix, "") => Scope::Invalid,
        (Prefix | PrefixOrAll, _) => Scope::Prefix,
        (Consumer | ConsumerOrAll, _) => Scope::One,
    }
}

#[test]
fn each_rpc_of_the_descriptors_has_a_row_and_no_other() {
    let mut there: Vec<String> = ours().iter().map(|method| method.name.clone()).collect();
    let mut rows: Vec<&str> = ROWS.iter().map(|(name, ..)| *name).collect();
    there.sort();
    rows.sort_unstable();
    assert_eq!(there, rows);
    let needed =
        |right: &str| ours().iter().filter(|method| super::rpcs::right(method, Usual) == right).count();
    assert_eq!(
        RIGHTS.map(needed),
        [5, 5, 11, 17, 2],
        "claim, settle, read, admin and store, as the table of the contract has them"
    );
}
