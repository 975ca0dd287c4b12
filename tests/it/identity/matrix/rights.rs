//! Rights × RPCs × consumers: each cell of the matrix; and that a refused call has looked at nothing.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::StreamExt as _;
use idempotency_ledger::identity::Guard;
use idempotency_ledger::proto;
use tonic::transport::Channel;

use super::door::Door;
use super::requests::{Asked, OTHER, batch, items, request};
use super::rpcs::{Method, RIGHTS, Scope, Way, names_an_entry, ours, right, scope, ways};
use super::wire::{Answer, Headers, call};
use crate::harness::details::{acquired, claim};
use crate::harness::raw;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::identity::{People, by, fresh};

const DENIED: &str = "CONSUMER_NOT_ALLOWED";
const INVALID: &str = "INVALID_FIELD";
const CHIEF: &str = "chief";

/// The places of a right: the word in the principal's name, and the consumers of its line.
const PLACES: [(&str, &str); 4] =
    [("exact", "team-a-orders"), ("prefix", "team-a-*"), ("all", "*"), ("other", OTHER)];

/// The consumers that are called for: its own, one of the same prefix, the prefix itself, a neighbour of the prefix,
/// another tenant's, another spelling, one that is not known, and no name.
const CONSUMERS: [&str; 9] =
    ["team-a-orders", "team-a-bills", "team-a-", "team-a", "team-ab", OTHER, "Team-A-orders", UNKNOWN, ""];
/// A consumer that the ledger has never met.
const UNKNOWN: &str = "team-z";

/// A principal with at most one right, at one place.
#[derive(Clone, Debug)]
struct Person {
    name: String,
    lines: Vec<(&'static str, &'static str)>,
}

fn person(right: &'static str, place: &str, consumers: &'static str) -> Person {
    Person { name: format!("{right}-{place}"), lines: vec![(consumers, right)] }
}

fn everybody() -> Vec<Person> {
    let mut people = vec![Person { name: "nothing".into(), lines: Vec::new() }];
    for right in RIGHTS {
        people.extend(PLACES.map(|(place, consumers)| person(right, place, consumers)));
    }
    people
}

fn people_of(people: &[Person]) -> People {
    let mut rows: Vec<(&str, &[(&str, &str)])> =
        people.iter().map(|person| (person.name.as_str(), person.lines.as_slice())).collect();
    rows.push((CHIEF, &[("*", "claim settle read admin")]));
    People::new(&rows)
}

/// Whether a line of the file fits a consumer: by its name, by a prefix before the star, or all of them.
fn fits(pattern: &str, consumer: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == consumer, |prefix| consumer.starts_with(prefix))
}

/// Whether a line fits every consumer whose name begins like this: never by a name alone.
fn fits_prefix(pattern: &str, asked: &str) -> bool {
    pattern.strip_suffix('*').is_some_and(|prefix| asked.starts_with(prefix))
}

/// What a cell must answer: the reason, or nothing where the call is not refused for its caller.
fn expected(person: &Person, method: &Method, way: Way, consumer: &str) -> &'static str {
    let needed = right(method, way);
    let has = |fits: &dyn Fn(&str) -> bool| {
        person.lines.iter().any(|(consumers, word)| *word == needed && fits(consumers))
    };
    // Before its request is read a call needs the right on any consumer. One that may only look needs the right to read.
    let has_somewhere = |right| person.lines.iter().any(|(_, word)| *word == right);
    let may_look = ["SetPolicy", "RaiseTokenOffset"].contains(&&*method.name) && has_somewhere("read");
    let is_read = may_look || has_somewhere(right(method, Way::Usual));
    match scope(method, way, consumer) {
        _ if !is_read => DENIED,
        Scope::Invalid => INVALID,
        Scope::One if has(&|consumers| fits(consumers, consumer)) => "",
        Scope::Prefix if has(&|consumers| fits_prefix(consumers, consumer)) => "",
        Scope::All if has(&|consumers| consumers == "*") => "",
        Scope::One | Scope::Prefix | Scope::All => DENIED,
    }
}

struct World {
    server: TestServer,
    channel: Channel,
    /// Where cells are asked by the HTTP door.
    door: Option<Door>,
    people: People,
}

impl World {
    /// A ledger that has an entry, and a policy, of each consumer but the unknown one.
    async fn new(kind: Kind, people: &[Person]) -> World {
        let people = people_of(people);
        let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default() };
        let mut server = TestServer::start_with(kind, setup).await;
        for consumer in CONSUMERS.into_iter().filter(|name| !name.is_empty() && *name != UNKNOWN) {
            let claimed =
                server.client.claim(by(people.token(CHIEF), claim(consumer, "there"))).await.unwrap();
            acquired(&claimed.into_inner());
            let policy = proto::SetPolicyRequest {
                consumer: consumer.into(),
                request_id: fresh(),
                reason: "because".into(),
                policy: Some(proto::Policy { max_attempts: Some(7), ..Default::default() }),
                ..Default::default()
            };
            server.admin.set_policy(by(people.token(CHIEF), policy)).await.unwrap();
        }
        let channel = raw::channel(&server).await;
        World { server, channel, door: None, people }
    }

    fn headers(&self, name: &str) -> Headers {
        vec![("authorization", format!("Bearer {}", self.people.token(name)).into_bytes())]
    }

    async fn ask(&self, person: &str, method: &Method, asked: &Asked) -> Answer {
        let (headers, message) = (self.headers(person), request(method, asked));
        match &self.door {
            Some(door) => call(door, method, &headers, message).await,
            None => call(&self.channel, method, &headers, message).await,
        }
    }

    /// All that the ledger shows to a caller who may see everything.
    async fn shown(&self) -> Vec<String> {
        let mut shown = Vec::new();
        for method in ours() {
            if matches!(
                method.name.as_str(),
                "ListEntries" | "ListPolicies" | "ListAuditEvents" | "ListReplayRuns" | "ListPolicyVersions"
            ) {
                for consumer in CONSUMERS {
                    let answer = self.ask(CHIEF, &method, &Asked::new(consumer, "there", Way::Usual)).await;
                    shown.push(format!("{} {consumer:?}: {:?}", method.name, items(&method, &answer)));
                    // The time of the answer stands in that of replay runs alone, of which there are none yet.
                    if method.name != "ListReplayRuns" {
                        shown.push(answer.seen());
                    }
                }
            }
        }
        shown
    }
}

/// A cell of the matrix.
struct Cell<'a> {
    person: &'a Person,
    method: &'a Method,
    asked: Asked,
}

impl Cell<'_> {
    fn expected(&self) -> &'static str {
        expected(self.person, self.method, self.asked.way, &self.asked.consumer)
    }

    fn named(&self) -> String {
        let Asked { consumer, id, way } = &self.asked;
        format!("{} {way:?} by {} for {consumer:?}, {id}", self.method.name, self.person.name)
    }
}

fn cells<'a>(people: &'a [Person], methods: &'a [Method]) -> Vec<Cell<'a>> {
    let mut cells = Vec::new();
    for method in methods {
        for way in ways(method) {
            for person in people {
                for consumer in CONSUMERS {
                    for id in ["there", "absent"] {
                        if id == "there" || names_an_entry(*way, method) {
                            cells.push(Cell { person, method, asked: Asked::new(consumer, id, *way) });
                        }
                    }
                }
            }
        }
    }
    cells
}

/// Asks what the cells ask. Streams are asked one after the other: a server carries out few of them concurrently.
async fn asked<'c>(world: &World, cells: Vec<&'c Cell<'_>>) -> Vec<(&'c Cell<'c>, Answer)> {
    let mut answers = Vec::new();
    for (streams, concurrently) in [(false, 64), (true, 1)] {
        let these = cells.iter().copied().filter(|cell| cell.method.streams == streams);
        let asked = futures_util::stream::iter(these)
            .map(|cell| async move { (cell, world.ask(&cell.person.name, cell.method, &cell.asked).await) });
        answers.extend(asked.buffer_unordered(concurrently).collect::<Vec<_>>().await);
    }
    answers
}

/// Each cell; before anything was changed the refused ones, whose answers are the same whatever the ledger holds.
async fn each_cell_is_answered_as_the_contract_says(kind: Kind, people: Vec<Person>) {
    let world = World::new(kind, &people).await;
    each_cell_of(world, people, ours()).await;
}

async fn each_cell_of(world: World, people: Vec<Person>, methods: Vec<Method>) {
    let cells = cells(&people, &methods);
    let (refused, allowed): (Vec<_>, Vec<_>) = cells.iter().partition(|cell| !cell.expected().is_empty());
    assert!(refused.len() > allowed.len() && !allowed.is_empty());
    let (mut wrong, mut refusals): (Vec<String>, BTreeMap<_, BTreeSet<String>>) = Default::default();
    let before = world.shown().await;
    for (cell, answer) in asked(&world, refused).await {
        let (reason, text) = items(cell.method, &answer).swap_remove(0);
        if reason != cell.expected() {
            wrong.push(format!("{}: {reason:?}, not {:?}", cell.named(), cell.expected()));
        } else if reason == DENIED {
            // The only thing that may make a difference is whether all consumers were asked for.
            let all = scope(cell.method, cell.asked.way, &cell.asked.consumer) == Scope::All;
            let of = (cell.method.name.as_str(), cell.asked.way, cell.person.name.as_str(), all);
            // The refusal repeats the name that its caller has sent, and nothing else depends on the consumer.
            let consumer = &cell.asked.consumer;
            let of_any = text.contains("on any consumer");
            if !(text.contains(&format!("{consumer:?}")) || all || of_any) {
                wrong.push(format!("{}: {text:?} does not name the consumer", cell.named()));
            }
            let text = text.replace(&format!("{consumer:?}"), "CONSUMER");
            refusals.entry((of, None)).or_default().insert(text);
            refusals.entry((of, Some(consumer.clone()))).or_default().insert(answer.seen());
        }
    }
    assert!(wrong.is_empty(), "{} cells: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    for (of, answers) in refusals {
        assert_eq!(answers.len(), 1, "{of:?} tells what the ledger holds: {answers:#?}");
    }
    assert_eq!(world.shown().await, before, "a refused call changed something");
    for (cell, answer) in asked(&world, allowed).await {
        let (reason, _) = items(cell.method, &answer).swap_remove(0);
        // A request that is not sound would show nothing of the right.
        if [DENIED, INVALID, "UNAUTHENTICATED", "UNIMPLEMENTED"].contains(&reason.as_str()) {
            wrong.push(format!("{}: {reason:?}", cell.named()));
        }
    }
    assert!(wrong.is_empty(), "{} cells: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_right_alone_allows_its_rpcs_on_its_consumers_on_sqlite() {
    each_cell_is_answered_as_the_contract_says(Kind::Sqlite, everybody()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_right_alone_allows_its_rpcs_by_the_http_door() {
    for http in [1, 2] {
        let people = everybody();
        let mut world = World::new(Kind::Sqlite, &people).await;
        let address = world.server.http_address();
        world.door = Some(if http == 1 { Door::by_http1(address) } else { Door::to(address).await });
        let methods = ours().into_iter().filter(|method| !method.streams).collect();
        each_cell_of(world, people, methods).await;
    }
}

/// A sample: the principals whose rights end at a prefix.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_right_alone_allows_its_rpcs_on_its_consumers_on_postgres() {
    let people = RIGHTS.map(|right| person(right, "prefix", "team-a-*")).to_vec();
    each_cell_is_answered_as_the_contract_says(Kind::Postgres, people).await;
}

/// Items of a batch, and entries of an import, are judged one by one: each as a call of its own would be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_item_of_a_batch_is_judged_as_a_call_of_its_own() {
    let people = everybody();
    let world = World::new(Kind::Sqlite, &people).await;
    let mut seen = 0;
    for method in ours() {
        let asked = CONSUMERS.map(|consumer| Asked::new(consumer, "in a batch", Way::Usual));
        let Some(message) = batch(&method, &asked) else { continue };
        for person in &people {
            let answer = call(&world.channel, &method, &world.headers(&person.name), message.clone()).await;
            let expected = CONSUMERS.map(|consumer| expected(person, &method, Way::Usual, consumer));
            let reasons: Vec<String> = items(&method, &answer)
                .into_iter()
                .map(
                    |(reason, _)| {
                        if [DENIED, INVALID].contains(&reason.as_str()) { reason } else { String::new() }
                    },
                )
                .collect();
            match answer.status {
                None => assert_eq!(reasons, expected, "{} by {}", method.name, person.name),
                // The whole call is refused only where each item would be.
                Some(_) => {
                    assert_eq!([DENIED; CONSUMERS.len()], expected, "{} by {}", method.name, person.name)
                }
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 6 * people.len());
    world.server.stop().await;
}
