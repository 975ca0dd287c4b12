//! The filter of entries: the flags shared by `entries list` and by the changes of many entries.

use clap::Args;

use crate::cli::enums::{Cause, State};
use crate::cli::text::duration;
use crate::common::duration_arg::DurationArg;
use crate::proto;

/// The filter, except for its consumer.
#[derive(Args, Clone)]
#[group(skip)]
pub(super) struct Filter {
    /// Only entries of this source
    #[arg(long)]
    source: Option<String>,
    /// Only entries whose id begins with this
    #[arg(long, value_name = "PREFIX")]
    id_prefix: Option<String>,
    /// Only entries in one of these states
    #[arg(long, num_args = 1.., value_delimiter = ',', ignore_case = true)]
    pub(super) state: Vec<State>,
    /// Only entries that are parked for one of these causes
    #[arg(long, num_args = 1.., value_delimiter = ',', ignore_case = true)]
    cause: Vec<Cause>,
    /// Only entries whose lease and grace are over, and that no client has claimed since
    #[arg(long)]
    expired: bool,
    /// Only entries whose effect two holders have reported as done
    #[arg(long)]
    doubled: bool,
    /// Only entries that were created at least this long ago
    #[arg(long, value_name = "DURATION")]
    older_than: Option<DurationArg>,
    /// Only entries that were created at most this long ago
    #[arg(long, value_name = "DURATION")]
    newer_than: Option<DurationArg>,
    /// Only open entries whose present or last claim has this owner
    #[arg(long)]
    owner: Option<String>,
    /// Only open entries whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    error_contains: Option<String>,
    /// Only entries that were parked at most this long ago, and still are
    #[arg(long, value_name = "DURATION")]
    parked_since: Option<DurationArg>,
    /// Entries of this replay run, not live ones
    #[arg(long, value_name = "RUN")]
    pub(super) replay_run: Option<String>,
}

impl Filter {
    pub(super) fn message(&self, consumer: &str) -> proto::EntryFilter {
        proto::EntryFilter {
            consumer: consumer.to_owned(),
            source: self.source.clone().unwrap_or_default(),
            id_prefix: self.id_prefix.clone().unwrap_or_default(),
            states: self.state.iter().map(|state| proto::EntryState::from(*state).into()).collect(),
            causes: self.cause.iter().map(|cause| proto::ParkCause::from(*cause).into()).collect(),
            expired: self.expired,
            doubled: self.doubled,
            min_age: self.older_than.map(|age| duration(age.into())),
            max_age: self.newer_than.map(|age| duration(age.into())),
            replay_run: self.replay_run.clone().unwrap_or_default(),
            owner: self.owner.clone().unwrap_or_default(),
            error_contains: self.error_contains.clone().unwrap_or_default(),
            parked_max_age: self.parked_since.map(|age| duration(age.into())),
        }
    }
}
