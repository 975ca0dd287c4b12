//! A server with eight of everything that is listed, none of it made in the order of its names.

use std::collections::BTreeMap;

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto;

use crate::harness::details::{claim, key};
use crate::harness::server::{Kind, TestServer};

/// The names, in the order in which they are used. As texts of a language they have another order than as bytes, and as numbers
/// a third one.
pub(crate) const NAMES: [&str; 8] = ["m", "B", "a-", "10", "z", "a", "9", "a.b"];
/// The consumer that has more of all than one page.
pub(crate) const CONSUMER: &str = "m";

/// The groups of rows that a list must show one after the other. The order within a group is not documented.
pub(crate) type Groups = Vec<Vec<String>>;

/// What was made.
#[derive(Default)]
pub(crate) struct Made {
    /// The ids of the consumer's entries, by the instant at which they were created.
    entries: BTreeMap<i64, Vec<String>>,
    /// Audit events: the consumer and the request id, by their instant.
    events: BTreeMap<i64, Vec<(String, String)>>,
    pub(crate) versions: i32,
}

fn by_name(names: impl IntoIterator<Item = String>) -> Groups {
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort_unstable();
    names.into_iter().map(|name| vec![name]).collect()
}

impl Made {
    /// The consumer's entries whose ids begin with this, oldest first.
    pub(crate) fn entries(&self, prefix: &str) -> Groups {
        let fit = |ids: &Vec<String>| ids.iter().filter(|id| id.starts_with(prefix)).cloned().collect();
        self.entries.values().map(fit).filter(|group: &Vec<String>| !group.is_empty()).collect()
    }

    /// The audit events, newest first: of one consumer, or all.
    pub(crate) fn events(&self, consumer: &str) -> Groups {
        let fit = |(of, id): &(String, String)| {
            (consumer.is_empty() || of == consumer).then(|| format!("{of} {id}"))
        };
        let groups = self.events.values().rev().map(|events| events.iter().filter_map(fit).collect());
        groups.filter(|group: &Vec<String>| !group.is_empty()).collect()
    }

    /// The consumers and their runs, by name, a consumer before its runs.
    pub(crate) fn counted(&self) -> Groups {
        let live = NAMES.iter().map(|name| format!("{name} "));
        by_name(live.chain(NAMES.iter().map(|run| format!("{CONSUMER} {run}"))))
    }

    pub(crate) fn names(&self) -> Groups {
        by_name(NAMES.map(str::to_owned))
    }

    pub(crate) fn holds(&self) -> Groups {
        by_name(NAMES.map(held))
    }

    /// The versions of the consumer's policy, newest first.
    pub(crate) fn versions(&self) -> Groups {
        (1..=self.versions).rev().map(|version| vec![version.to_string()]).collect()
    }
}

/// The prefix of a hold: of no consumer that claims.
fn held(name: &str) -> String {
    format!("{name}-held")
}

/// An id of a request; ids are in no order of time.
fn request_id(what: &str, number: usize) -> String {
    format!("{} {what}", number * 5 % 8)
}

/// A new server, filled.
pub(crate) async fn filled(kind: Kind) -> (TestServer, Made) {
    let mut server = TestServer::start(kind).await;
    let mut made = Made::default();
    for (number, name) in NAMES.into_iter().enumerate() {
        // Three of everything have one instant, and the instants do not follow the names.
        if number % 3 == 0 {
            server.advance(Span::from_secs(1)).await;
        }
        let now = server.at.now().micros();
        let mut noted = |consumer: &str, id: &str| {
            made.events.entry(now).or_default().push((consumer.to_owned(), id.to_owned()));
        };
        let id = request_id("policy", number);
        set_policy(&mut server, name, &id, 0).await;
        noted(name, &id);
        // Only the consumer with many entries has runs: it allows them since its first version, which comes first.
        let run = proto::CreateReplayRunRequest {
            consumer: CONSUMER.into(),
            replay_run: name.into(),
            request_id: request_id("run", number),
            reason: "any order".into(),
            ends_in: None,
        };
        noted(CONSUMER, &run.request_id);
        server.admin.create_replay_run(run).await.unwrap();
        let in_run = key(CONSUMER, "1").map(|key| proto::EntryKey { replay_run: name.into(), ..key });
        let in_run = proto::ClaimRequest { key: in_run, ..claim(CONSUMER, "1") };
        for request in [claim(name, "1"), in_run] {
            server.client.claim(request).await.unwrap();
        }
        if name != CONSUMER {
            server.client.claim(claim(CONSUMER, name)).await.unwrap();
        }
        made.entries.entry(now).or_default().push(if name == CONSUMER { "1".into() } else { name.into() });
    }
    made.versions = 1;
    for number in 0..NAMES.len() {
        server.advance(Span::from_millis(400)).await;
        let (now, id) = (server.at.now().micros(), request_id("again", number));
        set_policy(&mut server, CONSUMER, &id, made.versions).await;
        made.events.entry(now).or_default().push((CONSUMER.to_owned(), id));
        made.versions += 1;
    }
    for (number, name) in NAMES.into_iter().enumerate() {
        let (now, prefix, id) = (server.at.now().micros(), held(name), request_id("hold", number));
        let hold = proto::HoldConsumersRequest {
            prefix: prefix.clone(),
            all: false,
            request_id: id.clone(),
            reason: "any order".into(),
        };
        server.admin.hold_consumers(hold).await.unwrap();
        // The event of a hold stands under its prefix.
        made.events.entry(now).or_default().push((format!("{prefix}*"), id));
    }
    (server, made)
}

async fn set_policy(server: &mut TestServer, consumer: &str, request_id: &str, version: i32) {
    let policy = proto::Policy {
        replay: proto::ReplayMode::Rebuild.into(),
        max_attempts: Some(version + 1),
        ..Default::default()
    };
    let set = proto::SetPolicyRequest {
        consumer: consumer.into(),
        request_id: request_id.into(),
        expected_version: version,
        reason: "any order".into(),
        policy: Some(policy),
        ..Default::default()
    };
    server.admin.set_policy(set).await.unwrap();
}

/// The rows are those of the groups, each once, one group after the other.
#[track_caller]
pub(crate) fn are_in_order(found: &[String], groups: &Groups, what: &str) {
    let mut rest = found;
    for group in groups {
        let (part, more) = rest.split_at(group.len().min(rest.len()));
        let (mut part, mut group) = (part.to_vec(), group.clone());
        part.sort_unstable();
        group.sort_unstable();
        assert_eq!(part, group, "{what}: of {found:?}");
        rest = more;
    }
    assert_eq!(rest, <&[String]>::default(), "{what}: more than there is");
}
