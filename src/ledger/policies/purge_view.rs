//! The policies that the purge uses: all policies in force, as of one epoch of [`PolicyBook::policy_epoch`]. The purge
//! deletes nothing unless the store is still at that epoch.

use std::collections::HashMap;

use super::table::Policies;
use crate::domain::{Namespace, Policy, ReplayRun, Span, StoreTime, left_alone, run_taken_from};
use crate::store::{LeftAlone, Session, StoreError};

pub(crate) struct PurgeView {
    /// The epoch of [`PolicyBook::policy_epoch`] at which they were read.
    pub(crate) epoch: i64,
    policies: Policies,
    /// The retentions that the store has recorded, also those of other replicas' configurations.
    written: HashMap<String, Span>,
    /// The replay runs, by the names of their namespaces.
    runs: HashMap<String, ReplayRun>,
}

impl PurgeView {
    /// Reads the policies. The epoch comes first: a change while the rest is read then leaves an epoch that is too old, by which
    /// nothing is purged, never one that is too new.
    pub(crate) async fn read(file: &Policies, session: &mut dyn Session) -> Result<PurgeView, StoreError> {
        let epoch = session.policy_book().policy_epoch().await?;
        let policies = file.with(&session.policy_book().policies().await?, None);
        let (_, retentions) = session.policy_book().effective_retentions().await?;
        let runs = session.replay_book().replay_runs().await?.into_iter();
        let runs =
            runs.map(|run| (Namespace::new(&run.consumer, &run.name).name().to_owned(), run)).collect();
        let written = retentions.into_iter().filter_map(|one| Some((one.consumer, one.retention?)));
        Ok(PurgeView { epoch, policies, written: written.collect(), runs })
    }

    /// The policy of a consumer. During a rollout another replica's configuration may have a longer retention than this one's:
    /// the longer one counts.
    pub(crate) fn of(&self, consumer: &str) -> Policy {
        let policy = self.policies.of(consumer);
        let written = self.written.get(consumer).or_else(|| self.written.get(""));
        let retention = written.map_or(policy.retention, |written| policy.retention.max(*written));
        Policy { retention, ..Policy::clone(&policy) }
    }

    /// From when on the entries of a run are purged, whatever their state is; `None` if it is not a run, or one that this server
    /// does not know.
    pub(crate) fn run_taken_from(&self, namespace: &Namespace) -> Option<StoreTime> {
        let run = self.runs.get(namespace.name())?;
        Some(run_taken_from(run.end(), self.of(namespace.consumer()).retention))
    }

    /// How long after their creation the purge leaves the entries of each consumer alone.
    pub(crate) fn left_alone(&self) -> LeftAlone {
        let names = self.policies.own().map(|(name, _)| name).chain(self.written.keys().map(String::as_str));
        let of = |name: &str| left_alone(self.of(name).retention);
        LeftAlone { own: names.map(|name| (name.to_owned(), of(name))).collect(), others: of("") }
    }
}
