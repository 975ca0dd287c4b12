//! The filter of entries: the flags shared by `entries list` and by the changes of many entries.

use clap::Args;

use crate::cli::client::{Admin, Client};
use crate::cli::enums::{Cause, State};
use crate::cli::problem::Problem;
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
    /// Only entries whose message the inbox keeps
    #[arg(long)]
    kept: bool,
    /// Entries of this replay run, not live ones
    #[arg(long, value_name = "RUN")]
    pub(super) replay_run: Option<String>,
}

/// Longer ago than any entry was created.
const BEFORE_ALL: prost_types::Duration = prost_types::Duration { seconds: 10_000 * 86_400, nanos: 0 };

impl Filter {
    /// Whether it names entries that are stuck, of which a person wants to know more.
    pub(super) fn is_of_trouble(&self) -> bool {
        self.doubled || self.expired || !self.cause.is_empty() || !self.state.is_empty()
    }

    /// Refuses the fields that a server of an earlier version would ignore: it would change, or show, entries that the filter
    /// excludes. Such a server does not know `GroupEntries` either, which is asked here for nothing.
    pub(super) async fn is_known(
        &self,
        client: &Client,
        admin: &mut Admin,
        consumer: &str,
    ) -> Result<(), Problem> {
        let is_old = self.owner.is_none() && self.error_contains.is_none() && self.parked_since.is_none();
        if is_old && !self.kept {
            return Ok(());
        }
        let filter = Some(proto::EntryFilter {
            consumer: consumer.to_owned(),
            min_age: Some(BEFORE_ALL),
            ..proto::EntryFilter::default()
        });
        let asked = client.request(proto::GroupEntriesRequest { filter, maximum: 1 });
        match admin.group_entries(asked).await {
            Err(status) if status.code() == tonic::Code::Unimplemented => {
                let text = "the server is older than this command line, and does not know --owner, --error-contains, \
                            --parked-since and --kept: it would ignore them";
                Err(Problem::failed(text).next("leave them out, or ask a server of this version"))
            }
            // Whatever else is wrong is reported by the call itself.
            Ok(_) | Err(_) => Ok(()),
        }
    }

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
            inbox: if self.kept { proto::MessageState::Kept.into() } else { 0 },
        }
    }
}
