//! The core: the ledger's rules as pure functions.
//!
//! No async, no clock, no randomness, no SQL, no gRPC. Each rule of the ledger exists once, here; tables,
//! property tests and model checkers reach every rule without a database.

mod advice;
mod backoff;
mod body;
mod claim;
mod clock_fault;
mod command;
mod context;
mod decide;
mod delete_unreadable;
mod due;
mod entry;
mod fold;
mod hand_out;
mod hold;
mod import;
mod inbox;
mod inbox_calls;
mod key;
mod key_place;
mod lookup;
mod namespace;
mod operate;
mod patch;
mod policy;
mod preconditions;
mod read;
mod reason;
mod reconcile;
mod replay;
mod reply;
mod request_digest;
mod retention;
mod run_limits;
mod settle;
mod stored_policy;
mod submission;
mod terms;
mod time;
mod token_offset;
mod unreadable;
mod waiting;

pub use advice::Advice;
pub use body::Body;
pub use claim::guessable;
pub use clock_fault::clock_refusal;
pub use command::{Claim, Command, FailureKind, Settle};
pub use context::{Context, Decision};
pub use decide::decide;
pub use decide::{decide_absent, without_entry};
pub use delete_unreadable::delete_unreadable;
pub use entry::{Attempt, Claimant, ClosedBy, Entry, HISTORY_MAX, ParkCause, State};
pub use fold::{Fold, Folded};
pub use hand_out::{DueEntry, Grant, HandOut, HandOutBounds, hand_out, hand_out_again};
pub use hold::{Hold, held_consumers, liftable, names_many, placeable};
pub use import::{Import, Imported, ImportedEntry, import};
pub use inbox::{Store, StoreDecision, StoreVerdict, store, store_absent, store_refused};
pub use inbox_calls::{Handed, NextAnswer, NextRequest, StoreRequest, Stored};
pub use key::{KEY_FORMAT, Key, KeyHash};
pub use namespace::Namespace;
pub use operate::{Action, AllowedChange, Change, ChangeKind, Changed, Resolution, allowed_changes, operate};
pub use patch::PolicyPatch;
pub use policy::{
    Backoff, Doubt, FingerprintMode, OccurredAtMode, OnExpiry, Policy, PolicyError, ReplayMode,
};
pub use read::audit_action;
pub use read::{
    AuditEvent, AuditListing, AuditOf, ClockLimits, Count, EntryFilter, Expired, Listed, ListedRow, Listing,
    NameCounts, OpenConsumers, OpenRange, OpenRow, PolicyVersion, PurgeStatus, PurgeWorker, Reading, Summary,
    TOKEN_CLOCK_MAX,
};
pub use reason::{Alert, Reason, Rejection, Violation};
pub use reconcile::{Audited, EffectRow, Evidence, ReconcileOutcome, ReconcileWrite, Reconciled, reconcile};
pub use replay::{ReplayRun, RunMode, Standing};
pub use reply::{Answer, Finding, Reply, Verdict};
pub use request_digest::RequestDigest;
pub use retention::SETTLED;
pub use retention::retain_until_by_terms;
pub use retention::{PURGE_MARGIN, is_over, is_over_with_its_run, left_alone, raised_floor, run_taken_from};
pub use run_limits::RunCounts;
pub use stored_policy::{POLICY_FORMAT, StoredPolicy};
pub use submission::{Malformed, Submission, TraceId};
pub use terms::Terms;
pub use time::{Span, StoreTime};
pub use token_offset::{TOKEN_OFFSET_MAX, TOKEN_OFFSET_STEP_MAX, raise_token_offset};
pub use unreadable::{UnreadableEntry, leaves_a_higher_one};
pub use waiting::{
    Awaited, Sight, answered_after, answered_to_repeat, awaited, failed_again, is_repeated, sight,
};

/// The highest token: it fits a JavaScript number.
pub const TOKEN_MAX: i64 = (1 << 53) - 1;
