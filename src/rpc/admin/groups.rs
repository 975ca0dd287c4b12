//! `GroupEntries`: how many things went wrong, by consumer, cause and error.

use super::entries::{self, OPEN, Selects};
use crate::domain::{EntryFilter, Rejection};
use crate::ledger::{Ages, EntryGroups, Operators};
use crate::proto;
use crate::wire::fields::{FieldChecks, Limits};
use crate::wire::words;

const GROUPS_DEFAULT: usize = 100;
const GROUPS_MAX: usize = 1_000;

/// A `GroupEntries` request.
pub(super) struct Query {
    filter: EntryFilter,
    ages: Ages,
    maximum: usize,
}

impl Query {
    pub(super) fn of(request: &proto::GroupEntriesRequest, limits: &Limits) -> Result<Query, Rejection> {
        let mut fields = FieldChecks::new(limits);
        let (mut filter, ages) =
            entries::filter(&mut fields, request.filter.as_ref(), limits, Selects::OneOrAll);
        if filter.states.is_empty() {
            filter.states = OPEN.to_vec();
        } else if filter.states.contains(&(proto::EntryState::Completed as i16)) {
            fields.wrong("filter.states", "names COMPLETED: only open entries are grouped");
        }
        if filter.doubled {
            fields.wrong("filter.doubled", "is set: list such entries, with ListEntries");
        }
        let maximum = match usize::try_from(request.maximum) {
            Ok(0) => GROUPS_DEFAULT,
            Ok(maximum) if maximum <= GROUPS_MAX => maximum,
            Ok(_) | Err(_) => {
                let text =
                    format!("is {}, must be 1 to {GROUPS_MAX}, or 0 for {GROUPS_DEFAULT}", request.maximum);
                fields.wrong("maximum", text);
                GROUPS_DEFAULT
            }
        };
        fields.finish(|| Query { filter, ages, maximum })
    }

    /// Whose entries are grouped; empty for all consumers.
    pub(super) fn consumer(&self) -> &str {
        &self.filter.consumer
    }

    pub(super) async fn run(self, operators: &Operators) -> Result<proto::GroupEntriesResponse, Rejection> {
        let EntryGroups { reading, mut groups, looked_at, is_sample } =
            operators.group(self.filter, self.ages).await?;
        let more = groups.len().saturating_sub(self.maximum);
        groups.truncate(self.maximum);
        let groups = groups.into_iter().map(|(key, group)| proto::EntryGroup {
            consumer: key.consumer,
            state: key.state.into(),
            cause: key.cause.into(),
            error: key.error,
            count: group.count,
            oldest_age: Some(words::age(reading.now, group.oldest)),
        });
        Ok(proto::GroupEntriesResponse {
            groups: groups.collect(),
            looked_at: i64::try_from(looked_at).unwrap_or(i64::MAX),
            is_sample,
            more_groups: i64::try_from(more).unwrap_or(i64::MAX),
            as_of: Some(words::shown(reading.now)),
        })
    }
}
