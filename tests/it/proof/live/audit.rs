//! Every kind of operators' change while servers and Postgres are killed amid them: what is asked, and what
//! was told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use idempotency_ledger::proto;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tonic::transport::{Channel, Endpoint};

use super::deaths::Deaths;
use super::policies::{CHANGING, Tuner};
use super::world::World;
use super::{audit_judged, audit_many};
use crate::harness::details::{acquired, key};
use crate::harness::random::Random;
use crate::proof::run::Run;
use crate::proof::spec::Order;
use crate::proof::{steps, wire};

/// Whose entries are changed one by one, and how many there are.
pub(super) const SINGLE: &str = "audited";
pub(super) const KEYS: u64 = 12;
/// After so many changes all tokens are old enough again for their entries to be deleted.
const OLDER_EVERY: u64 = 20;

/// What is known of a request: done, refused; else nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Done,
    Refused,
    Unknown,
}

/// What was asked and told.
#[derive(Default)]
pub(super) struct Told {
    /// Changes of single entries, by request id.
    pub(super) orders: BTreeMap<String, Known>,
    /// Bulk redrives: how many entries they say that they redrove, and which.
    pub(super) redrives: BTreeMap<String, (i64, BTreeSet<String>)>,
    /// Imports: the messages of each, all answered in the end.
    pub(super) imports: BTreeMap<String, Vec<proto::ImportEntriesRequest>>,
    pub(super) counts: BTreeMap<&'static str, u64>,
}

impl Told {
    /// One answer more. Whatever was done once stays done, and a refusal takes back no doubt.
    pub(super) fn note(&mut self, request_id: &str, done: Result<(), &str>) {
        let known = match done {
            Ok(()) => Known::Done,
            Err("" | "OUTCOME_UNKNOWN" | "DEADLINE_EXCEEDED" | "CANCELLED") => Known::Unknown,
            Err(_) => Known::Refused,
        };
        *self
            .counts
            .entry(match known {
                Known::Done => "done",
                Known::Refused => "refused",
                Known::Unknown => "of unknown outcome",
            })
            .or_default() += 1;
        let before = self.orders.entry(request_id.to_owned()).or_insert(known);
        *before = match (*before, known) {
            (Known::Done, _) | (_, Known::Done) => Known::Done,
            (Known::Unknown, _) | (_, Known::Unknown) => Known::Unknown,
            (Known::Refused, Known::Refused) => Known::Refused,
        };
    }
}

/// An order that was given before.
#[derive(Clone)]
struct Given {
    request_id: String,
    key: u64,
    order: Order,
    expected: i64,
}

pub(super) fn channel(world: &World, replica: usize) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", world.replicas[replica])).unwrap();
    endpoint.timeout(Duration::from_secs(5)).connect_timeout(Duration::from_secs(1)).connect_lazy()
}

pub(super) fn admin(world: &World, replica: usize) -> AdminServiceClient<Channel> {
    AdminServiceClient::new(channel(world, replica))
}

pub(crate) async fn order_amid_deaths(
    run: &mut Run,
    random: &mut Random,
    mut deaths: Deaths<'_>,
    world: &Arc<World>,
) -> String {
    let mut claims = LedgerServiceClient::new(channel(world, 0));
    for number in 0..KEYS {
        let request = proto::ClaimRequest { key: key(SINGLE, &number.to_string()), ..Default::default() };
        acquired(&claims.claim(request).await.unwrap().into_inner());
    }
    audit_many::park_all(&mut claims).await;
    let first = audit_judged::versions(world).await;
    let (mut told, mut given) = (Told::default(), Vec::new());
    let mut tuner = Tuner::new(world, 0);
    // What each began with is known before anything changes.
    for (consumer, _) in CHANGING {
        tuner.look_until_seen(consumer, 0).await;
    }
    for number in 0..run.size {
        if number % OLDER_EVERY == 0 {
            let statement = "UPDATE ledger.meta SET token_offset = token_offset + 120000000";
            deaths.cluster.execute("postgres", statement).await;
        }
        let replica = random.below(world.replicas.len() as u64) as usize;
        match random.below(20) {
            0..4 => {
                let (consumer, _) = CHANGING[number as usize % CHANGING.len()];
                deaths.amid(replica, random, async || tuner.round(consumer).await).await;
            }
            4 => audit_many::redrive(&mut told, &mut deaths, random, world, number).await,
            5 => audit_many::import(&mut told, &mut deaths, random, world, number).await,
            _ => {
                let Some(next) = next(random, &mut given, world, replica, number).await else { continue };
                let name = key(SINGLE, &next.key.to_string()).unwrap();
                let mut admin = admin(world, replica);
                let done = deaths
                    .amid(replica, random, async || {
                        wire::order_of(&mut admin, &name, &next.order, &next.request_id, next.expected).await
                    })
                    .await;
                told.note(&next.request_id, done.as_ref().map(drop).map_err(String::as_str));
            }
        }
        run.progress(number, "changes");
    }
    deaths.bury(true).await;
    audit_many::repeat(&mut told, world).await;
    match audit_judged::judge(&told, &first, world).await {
        Ok(events) => {
            let counts: Vec<String> =
                told.counts.iter().map(|(what, times)| format!("{times} {what}")).collect();
            format!("{events}, {}; {}", counts.join(", "), deaths.told())
        }
        Err(problem) => run.fail(problem, &[]),
    }
}

/// A new order, one that was given before, or one with the id of another.
async fn next(
    random: &mut Random,
    given: &mut Vec<Given>,
    world: &World,
    replica: usize,
    number: u64,
) -> Option<Given> {
    if !given.is_empty() && random.percent(12) {
        let before: &Given = steps::pick(random, given);
        let other = Given { key: (before.key + 1) % KEYS, ..before.clone() };
        return Some(if random.percent(30) { other } else { before.clone() });
    }
    let of = random.below(KEYS);
    let request = proto::GetEntryRequest { key: key(SINGLE, &of.to_string()), ..Default::default() };
    let seen = match admin(world, replica).get_entry(request).await {
        Ok(seen) => seen.into_inner().entry.unwrap().version,
        Err(status) if super::policies::word(&status) == "ENTRY_NOT_FOUND" => 0,
        Err(_) => return None,
    };
    let force = random.percent(80);
    let order = match random.below(12) {
        _ if seen == 0 && random.percent(70) => {
            Order::Redrive { force, drop_fingerprint: false, admit: true }
        }
        0..3 => Order::Park,
        3..6 => Order::Redrive { force, drop_fingerprint: random.percent(50), admit: false },
        6 | 7 => Order::Complete { force, result: b"looked up".to_vec() },
        8 => Order::FailTerminal { force, error: "never".into() },
        9 => Order::NotDone { force },
        _ => Order::Delete { force },
    };
    // Of a version that was long ago, or is not yet: refused.
    let expected = if random.percent(10) { seen + 7 } else { seen };
    let next = Given { request_id: format!("order {number}"), key: of, order, expected };
    given.push(next.clone());
    Some(next)
}
