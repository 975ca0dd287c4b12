//! Results of reading the store: readings of its clock, pages, counts, the audit.

mod audit;
pub mod audit_action;
mod clock;
mod listing;
mod policy_version;
mod purge;

pub use audit::{AuditEvent, AuditListing, AuditOf};
pub use clock::{ClockLimits, Reading, TOKEN_CLOCK_MAX};
pub use listing::{
    Count, EntryFilter, Expired, Listed, ListedRow, Listing, NameCounts, OpenConsumers, OpenRange, OpenRow,
    Summary,
};
pub use policy_version::PolicyVersion;
pub use purge::{PurgeStatus, PurgeWorker};
