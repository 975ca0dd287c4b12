//! The policies, judged: the versions are exactly what was done, each with its audit event and none for
//! what was refused; and no replica went by others than may have been in force.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use idempotency_ledger::proto;

use super::policies::{Asked, CHANGING, Seen, Sight, Told, admin, reason};
use super::world::{GRACE, LEASE, World, micros};
use crate::proof::history::{Backoff, Change, Expiry, InForce, Refusal, Rules};

/// The rules of a consumer whose policy nobody changes.
pub(crate) fn steady(consumer: &str) -> InForce {
    let expiry = if consumer == "careful" { Expiry::ParkIfStarted } else { Expiry::Reclaim };
    let (lease, grace) = (micros(LEASE), micros(GRACE));
    let backoff = Backoff::NONE;
    InForce::always(Rules { lease, grace, expiry, max_attempts: 0, backoff, refuses: None })
}

/// What may have been in force for each consumer whose policy was changed.
pub(crate) async fn judge(world: &Arc<World>) -> Result<HashMap<&'static str, InForce>, String> {
    let first = world.policies.first.lock().unwrap().clone();
    let mut all = HashMap::new();
    for (consumer, first) in first {
        let versions = versions(world, consumer).await?;
        let events = events(world, consumer).await?;
        let asked = world.policies.asked.lock().unwrap().clone();
        let seen = world.policies.seen.lock().unwrap().clone();
        let consumers = |one: &&Asked| one.consumer == consumer;
        let history = History {
            first: first.policy.unwrap(),
            versions,
            asked: asked.iter().filter(consumers).cloned().collect(),
            seen: seen.into_iter().filter(|one| one.consumer == consumer).collect(),
            everywhere: world.everywhere,
        };
        let in_force = history.judge(&events).map_err(|problem| format!("{consumer}: {problem}"))?;
        all.insert(consumer, in_force);
    }
    let unknown = CHANGING.len() - all.len();
    if unknown > 0 && !all.is_empty() {
        return Err(format!("{unknown} consumers were never looked at"));
    }
    Ok(all)
}

/// All versions, oldest first.
async fn versions(world: &World, consumer: &str) -> Result<Vec<proto::PolicyVersion>, String> {
    let mut request =
        proto::ListPolicyVersionsRequest { consumer: consumer.into(), page_size: 7, ..Default::default() };
    let mut all = Vec::new();
    loop {
        let page = admin(world, 0).list_policy_versions(request.clone()).await;
        let page = page.map_err(|status| format!("no versions: {status:?}"))?.into_inner();
        all.extend(page.versions);
        if page.next_page_token.is_empty() {
            all.reverse();
            return Ok(all);
        }
        request.page_token = page.next_page_token;
    }
}

/// All audit events of policies, oldest first.
pub(crate) async fn events(world: &World, consumer: &str) -> Result<Vec<proto::AuditEvent>, String> {
    let mut request =
        proto::ListAuditEventsRequest { consumer: consumer.into(), page_size: 500, ..Default::default() };
    let mut all = Vec::new();
    loop {
        let page = admin(world, 0).list_audit_events(request.clone()).await;
        let page = page.map_err(|status| format!("no events: {status:?}"))?.into_inner();
        all.extend(page.events.into_iter().filter(|event| event.action.ends_with("_POLICY")));
        if page.next_page_token.is_empty() {
            all.reverse();
            return Ok(all);
        }
        request.page_token = page.next_page_token;
    }
}

/// One consumer's.
pub(crate) struct History {
    /// Of the configuration: in force before the first version, and after each deletion.
    pub(crate) first: proto::Policy,
    pub(crate) versions: Vec<proto::PolicyVersion>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) seen: Vec<Seen>,
    /// Within this a change must be in force on every replica.
    pub(crate) everywhere: i64,
}

impl History {
    /// Everything that can be said of it.
    pub(crate) fn judge(&self, events: &[proto::AuditEvent]) -> Result<InForce, String> {
        let in_force = self.changes()?;
        self.refusals(&in_force)?;
        self.audited(events)?;
        self.floors()?;
        self.sights(&in_force)?;
        Ok(in_force)
    }

    fn policy(&self, version: usize) -> &proto::Policy {
        let own = version.checked_sub(1).and_then(|place| self.versions[place].policy.as_ref());
        own.unwrap_or(&self.first)
    }

    /// Each version belongs to one call, and each call that was done to one version.
    fn changes(&self) -> Result<InForce, String> {
        let mut by_reason: BTreeMap<String, Vec<&Asked>> = BTreeMap::new();
        for asked in &self.asked {
            by_reason.entry(reason(&asked.request_id)).or_default().push(asked);
        }
        let mut changes = Vec::new();
        for (number, version) in (1..).zip(&self.versions) {
            if version.version != number {
                return Err(format!("version {} stands where {number} should", version.version));
            }
            let calls = by_reason.remove(&version.reason);
            let calls = calls.ok_or_else(|| format!("nobody asked for {version:?}, or it is there twice"))?;
            let done = |asked: &&&Asked| matches!(asked.told, Told::Done { .. });
            let maker = calls.iter().find(|asked| matches!(asked.told, Told::Done { replayed: false, .. }));
            let refused = calls.iter().all(|asked| matches!(asked.told, Told::Refused(_)));
            if refused || calls[0].expected + 1 != number || calls[0].bad.is_some() {
                return Err(format!("{version:?} was asked for like this: {calls:?}"));
            }
            // Who was not told is only known to have been there.
            let known = calls.iter().filter(done).map(|asked| asked.returned).min().unwrap_or(i64::MAX);
            changes.push(Change {
                rules: rules(self.policy(number as usize)),
                replica: maker.map_or(usize::MAX, |asked| asked.replica),
                invoked: calls.iter().map(|asked| asked.invoked).min().unwrap(),
                returned: maker.map_or(known, |asked| asked.returned),
            });
            self.content(number as usize, calls[0].patch.as_ref())?;
        }
        if let Some(done) = by_reason.values().flatten().find(|asked| matches!(asked.told, Told::Done { .. }))
        {
            return Err(format!("this was answered as done, and has no version: {done:?}"));
        }
        for pair in changes.windows(2) {
            if pair[1].returned < pair[0].invoked {
                return Err(format!("the versions are in another order than their calls: {pair:?}"));
            }
        }
        let shown = self.seen.iter().filter_map(|seen| match &seen.what {
            Sight::Policy(shown) => Some((seen.replica, seen.returned, shown.version as usize)),
            Sight::Granted(_) | Sight::Disabled | Sight::Number(_) => None,
        });
        Ok(InForce {
            first: rules(&self.first),
            changes,
            shown: shown.collect(),
            everywhere: self.everywhere,
            raises: Vec::new(),
            shifts: Vec::new(),
            losses: Vec::new(),
        })
    }

    /// The version is the one before it with what was asked for.
    fn content(&self, number: usize, patch: Option<&proto::Policy>) -> Result<(), String> {
        let (before, now) = (self.policy(number - 1), &self.versions[number - 1].policy);
        let (Some(patch), Some(now)) = (patch, now) else {
            let agree = patch.is_none() && now.is_none();
            return if agree { Ok(()) } else { Err(format!("version {number} is {now:?}, not {patch:?}")) };
        };
        let on_expiry = if patch.on_expiry == 0 { before.on_expiry } else { patch.on_expiry };
        let expected = proto::Policy {
            lease: patch.lease.or(before.lease),
            reclaim_grace: patch.reclaim_grace.or(before.reclaim_grace),
            on_expiry,
            max_attempts: patch.max_attempts.or(before.max_attempts),
            backoff: patch.backoff.or(before.backoff),
            retention: patch.retention.or(before.retention),
            disabled: patch.disabled.or(before.disabled),
            max_lease: before.max_lease,
            max_hold: before.max_hold,
            max_redelivery_window: before.max_redelivery_window,
            fingerprint: before.fingerprint,
            // These follow the retention.
            failed_retention: now.failed_retention,
            abandoned_retention: now.abandoned_retention,
            result_retention: now.result_retention,
            ..before.clone()
        };
        if *now == expected {
            return Ok(());
        }
        Err(format!("version {number} is {now:?}; {patch:?} was asked for over {before:?}"))
    }

    /// Nothing is refused for its version while that is surely the newest.
    fn refusals(&self, in_force: &InForce) -> Result<(), String> {
        let changes = &in_force.changes;
        for asked in &self.asked {
            let Told::Refused(reason) = &asked.told else { continue };
            let expected = asked.expected as usize;
            let reached = expected == 0
                || changes.get(expected - 1).is_some_and(|change| change.returned <= asked.invoked);
            let stays = changes.get(expected).is_none_or(|change| change.invoked > asked.returned);
            let newest = reached && stays;
            let made = self
                .asked
                .iter()
                .any(|other| other.request_id == asked.request_id && !matches!(other.told, Told::Refused(_)));
            let fair = match reason.as_str() {
                "VERSION_MISMATCH" => !newest,
                "POLICY_NOT_FOUND" => asked.patch.is_none() && !(newest && self.is_set(expected)),
                // The same id for another consumer is no repeat.
                "INVALID_FIELD" => asked.bad.is_some() || !made,
                "RETENTION_TOO_SHORT" => asked.bad.is_some(),
                "OVERLOADED" | "STORE_UNAVAILABLE" | "DRAINING" => true,
                _ => false,
            };
            if !fair {
                return Err(format!("refused without need: {asked:?}"));
            }
        }
        Ok(())
    }

    /// As entries tell it: 0 is the configuration's.
    fn number(&self, version: usize) -> i32 {
        if self.is_set(version) { version as i32 } else { 0 }
    }

    fn is_set(&self, version: usize) -> bool {
        version.checked_sub(1).is_some_and(|place| self.versions[place].policy.is_some())
    }

    /// Each version has one audit event, made with it, and there is no other.
    fn audited(&self, events: &[proto::AuditEvent]) -> Result<(), String> {
        let expected: Vec<_> = self
            .versions
            .iter()
            .map(|one| {
                let action = if one.policy.is_some() { "SET_POLICY" } else { "DELETE_POLICY" };
                (action, one.reason.as_str(), one.created_at)
            })
            .collect();
        let mut there: Vec<_> =
            events.iter().map(|one| (one.action.as_str(), one.reason.as_str(), one.at)).collect();
        // In the order of the versions: two events may have been made by the clock of one instant.
        let place: HashMap<&str, usize> =
            self.versions.iter().enumerate().map(|(place, one)| (one.reason.as_str(), place)).collect();
        there.sort_by_key(|(_, reason, _)| place.get(reason).copied().unwrap_or(usize::MAX));
        if there != expected {
            return Err(format!("the versions are {expected:?}, the events {there:?}"));
        }
        let ids: HashSet<_> = events.iter().map(|event| reason(&event.request_id)).collect();
        if !self.versions.iter().all(|version| ids.contains(&version.reason)) {
            return Err(format!("an event has another request's id: {events:?}"));
        }
        // The mask is of the request that brought the policy, not of the policy.
        let policy = |json: &str| {
            let mut kept: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(json).unwrap_or_default();
            kept.remove("update_mask");
            kept
        };
        let text = |reason: &str| events.iter().find(|event| event.reason == reason).unwrap();
        for pair in self.versions.windows(2) {
            let (one, next) = (text(&pair[0].reason), text(&pair[1].reason));
            if !one.after_json.is_empty() && policy(&one.after_json) != policy(&next.before_json) {
                return Err(format!("after {one:?} came {next:?}"));
            }
        }
        Ok(())
    }

    /// The window floor is raised by each longer retention to what may have been purged, and by nothing
    /// else.
    fn floors(&self) -> Result<(), String> {
        let mut floors = BTreeMap::from([(0, 0)]);
        for asked in &self.asked {
            if let Told::Done { policy, .. } = &asked.told {
                floors.insert(policy.version as usize, instant(policy.window_floor.as_ref()));
            }
        }
        for (version, floor) in &floors {
            let Some(before) = version.checked_sub(1).and_then(|before| floors.get(&before)) else {
                continue;
            };
            let (old, new) = (self.policy(version - 1).retention, self.policy(*version).retention);
            let (old, new) = (span(old.as_ref()), span(new.as_ref()));
            let at = instant(self.versions[version - 1].created_at.as_ref());
            let expected = if new > old { at - old } else { 0 };
            if *floor != expected.max(*before) {
                return Err(format!(
                    "version {version} has the floor {floor} after {before}; its retention is {new} after {old}"
                ));
            }
        }
        Ok(())
    }

    /// No replica showed, or went by, what was not in force any more, or not yet.
    fn sights(&self, in_force: &InForce) -> Result<(), String> {
        for seen in &self.seen {
            let (first, last) = in_force.versions(seen.replica, seen.invoked, seen.returned);
            let mut possible = first..=last;
            let fair = match &seen.what {
                Sight::Policy(shown) => {
                    let version = shown.version as usize;
                    possible.contains(&version) && shown.policy.as_ref() == Some(self.policy(version))
                }
                Sight::Disabled => possible.any(|version| self.policy(version).disabled()),
                Sight::Number(number) => possible.any(|version| self.number(version) == *number),
                Sight::Granted(entry) => possible.any(|version| {
                    let policy = self.policy(version);
                    let lease = instant(entry.lease_until.as_ref()) - instant(entry.granted_at.as_ref());
                    !policy.disabled()
                        && entry.policy_version == self.number(version)
                        && lease == span(policy.lease.as_ref())
                        && entry.retention == policy.retention
                }),
            };
            if !fair {
                return Err(format!("only versions {first} to {last} may have been in force: {seen:?}"));
            }
        }
        Ok(())
    }
}

fn span(span: Option<&prost_types::Duration>) -> i64 {
    span.map_or(0, |span| span.seconds * 1_000_000 + i64::from(span.nanos) / 1_000)
}

fn instant(at: Option<&prost_types::Timestamp>) -> i64 {
    at.map_or(0, |at| at.seconds * 1_000_000 + i64::from(at.nanos) / 1_000)
}

fn rules(policy: &proto::Policy) -> Rules {
    let backoff = policy.backoff.unwrap();
    Rules {
        lease: span(policy.lease.as_ref()),
        grace: span(policy.reclaim_grace.as_ref()),
        expiry: match policy.on_expiry() {
            proto::OnExpiry::ParkIfStarted => Expiry::ParkIfStarted,
            proto::OnExpiry::Park => Expiry::Park,
            proto::OnExpiry::Reclaim | proto::OnExpiry::Unspecified => Expiry::Reclaim,
        },
        max_attempts: policy.max_attempts(),
        backoff: Backoff {
            initial: span(backoff.initial.as_ref()),
            multiplier: backoff.multiplier(),
            max: span(backoff.max.as_ref()),
            jitter: backoff.jitter(),
        },
        refuses: policy.disabled().then_some(Refusal::Disabled),
    }
}
