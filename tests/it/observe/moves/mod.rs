//! Gauges fall, counters rise: each metric of the catalogue is seen to move in each of its directions by an event. The catalogue
//! is the table of `docs/metrics.md`, as the program prints it.

mod credentials;
mod day;
mod edge;
mod inbox;
mod scene;
mod standby;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::LocalBoxFuture;
use idempotency_ledger::metrics::table;

/// The series of a server, each with its value.
pub(super) type Series = BTreeMap<String, f64>;

/// How long a series may take to move on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Something that happens, and what moves by it. The prefix `idempotency_ledger_` is left out of the names of series.
struct Event<S> {
    what: &'static str,
    happens: for<'s> fn(&'s mut S) -> LocalBoxFuture<'s, ()>,
    rises: &'static [&'static str],
    falls: &'static [&'static str],
}

/// Functions that are events of a scene.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($scene:ident: $of:ty) $body:block)*) => {
        $($(#[$doc])* fn $name($scene: &mut $of) -> futures_util::future::LocalBoxFuture<'_, ()> {
            Box::pin(async move $body)
        })*
    };
}
use events;

/// Where things happen: a server whose metrics can be looked at.
trait Scene {
    async fn series(&self) -> Series;

    /// What an event has seen itself, of something that does not last.
    fn seen(&mut self) -> Option<Series> {
        None
    }
}

/// A series that both stores, or all builds, show is named by its whole name; the others by what stands behind the prefix.
fn full(name: &str) -> String {
    let is_foreign = name.starts_with("grpc_") || name.starts_with("process_");
    if is_foreign { name.to_owned() } else { format!("idempotency_ledger_{name}") }
}

/// The metric of a series.
fn metric(series: &str) -> &str {
    let name = series.split('{').next().unwrap();
    let parts = ["_bucket", "_sum", "_count"];
    parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name)
}

fn value(series: &Series, name: &str) -> f64 {
    // A series that is not there yet has counted nothing.
    series.get(&full(name)).copied().unwrap_or(0.0)
}

/// The kind of each metric of the catalogue.
fn kinds() -> BTreeMap<String, String> {
    let cells = |line: &str| line.split(" | ").map(str::to_owned).collect::<Vec<_>>();
    let rows = table().lines().skip(2).map(cells).collect::<Vec<_>>();
    rows.into_iter().map(|row| (row[0].trim_matches(['|', ' ', '`']).to_owned(), row[1].clone())).collect()
}

/// Waits until a series is above zero. It polls: no event reports a change of a metric.
async fn until_shown<S: Scene>(scene: &S, name: &str) {
    let since = Instant::now();
    while value(&scene.series().await, name) <= 0.0 {
        assert!(since.elapsed() < PATIENCE, "{name} stays at zero");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Each event moves what it says, and no counter ever falls.
async fn all_happen<S: Scene>(scene: &mut S, events: &[Event<S>]) {
    let (kinds, mut seen) = (kinds(), None);
    for event in events {
        let before = match seen.take() {
            Some(seen) => seen,
            None => scene.series().await,
        };
        (event.happens)(scene).await;
        let since = Instant::now();
        loop {
            seen = scene.seen();
            let now = match &seen {
                Some(seen) => seen.clone(),
                None => scene.series().await,
            };
            let moved = |name: &&&str, up: bool| {
                let (was, is) = (value(&before, name), value(&now, name));
                if up { is > was } else { is < was }
            };
            let up = event.rises.iter().filter(|name| !moved(name, true));
            let still: Vec<_> = up.chain(event.falls.iter().filter(|name| !moved(name, false))).collect();
            for (name, is) in &now {
                let counts = kinds.get(metric(name)).is_some_and(|kind| kind != "gauge");
                let was = before.get(name).copied().unwrap_or(0.0);
                assert!(!counts || *is >= was, "{}: the counter {name} fell from {was} to {is}", event.what);
            }
            if still.is_empty() {
                break;
            }
            let shown =
                |name: &&&str| format!("{name}: {} and then {}", value(&before, name), value(&now, name));
            let shown = || still.iter().map(shown).collect::<Vec<_>>();
            assert!(since.elapsed() < PATIENCE, "{}: these do not move: {:#?}", event.what, shown());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Metrics that other tests see moving: those need a server that ends, a log that stalls, or sessions that grow old.
const ELSEWHERE: [(&str, &str, &str); 5] = [
    (
        "idempotency_ledger_store_losses_total",
        "tests/it/sqlite_file/losses.rs",
        "a_wal_that_is_removed_after_a_kill_is_a_loss",
    ),
    (
        "idempotency_ledger_store_sessions_replaced_total",
        "tests/it/secrets/sessions.rs",
        "sessions_are_replaced_under_load_and_nobody_notices",
    ),
    (
        "idempotency_ledger_log_lines_dropped_total",
        "tests/it/process/log.rs",
        "a_stalled_log_of_text_delays_no_call",
    ),
    (
        "idempotency_ledger_inbox_message_bytes",
        "tests/it/inbox/store_table.rs",
        "full_backlog_is_refused_and_heals",
    ),
    (
        "idempotency_ledger_inbox_erase_lag_seconds",
        "tests/it/inbox/store_table.rs",
        "erasure_that_is_late_shows_its_lag",
    ),
];

/// Gauges that never fall, each with its reason.
const NEVER_FALL: [(&str, &str); 1] =
    [("idempotency_ledger_stored_names", "the store forgets no name: docs/metrics.md")];

/// Gauges that do not move while a process lives, or that the kernel alone moves. `shown_as_the_kernel_has_it` compares their
/// values.
const NOT_OURS: [&str; 6] = [
    "idempotency_ledger_build_info",
    "process_max_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_threads",
    "process_virtual_memory_bytes",
];

/// The series of all events: those that rise, and those that fall.
fn moving() -> [BTreeSet<String>; 2] {
    let all = [
        named(day::EVENTS),
        named(upkeep::EVENTS),
        named(edge::EVENTS),
        named(inbox::EVENTS),
        named(standby::EVENTS),
        named(credentials::EVENTS),
    ];
    let of = |which: usize| all.iter().flat_map(|lists| &lists[which]).map(|name| full(name)).collect();
    [of(0), of(1)]
}

fn named<S>(events: &[Event<S>]) -> [Vec<&'static str>; 2] {
    let of = |list: fn(&Event<S>) -> &'static [&'static str]| events.iter().flat_map(list).copied().collect();
    [of(|event| event.rises), of(|event| event.falls)]
}

/// The metrics of a catalogue that the events do not cover.
fn uncovered(kinds: &BTreeMap<String, String>, [rising, falling]: &[BTreeSet<String>; 2]) -> Vec<String> {
    let of = |series: &BTreeSet<String>, name: &str| series.iter().any(|one| metric(one) == name);
    let mut wrong = Vec::new();
    for (name, kind) in kinds {
        let seen = ELSEWHERE.iter().any(|(one, ..)| one == name) || NOT_OURS.contains(&name.as_str());
        if seen == of(rising, name) {
            wrong.push(format!("{name} must rise by one event, or be seen elsewhere"));
        }
        let falls = of(falling, name);
        let may_stay = kind != "gauge" || seen || NEVER_FALL.iter().any(|(one, _)| one == name);
        if falls == may_stay {
            wrong.push(format!("{name} is a {kind}, and falls by an event: {falls}"));
        }
    }
    for series in rising.iter().chain(falling) {
        if !kinds.contains_key(metric(series)) {
            wrong.push(format!("{series} is not in the catalogue"));
        }
    }
    wrong
}

#[test]
fn each_metric_of_the_catalogue_moves_by_an_event() {
    let (kinds, moving) = (kinds(), moving());
    assert!(kinds.len() > 60, "the catalogue was read: {kinds:?}");
    assert_eq!(uncovered(&kinds, &moving), Vec::<String>::new());
    for (metric, file, test) in ELSEWHERE {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        assert!(text.contains(&format!("fn {test}(")) && text.contains(metric), "{file}: {test}, {metric}");
    }
    let exempt = NEVER_FALL.iter().map(|(name, _)| *name).chain(NOT_OURS);
    let unknown: Vec<_> = exempt.filter(|name| !kinds.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "exempt, and not in the catalogue: {unknown:?}");
    // A metric without an event is found, and a gauge without one of its directions.
    let mut more = kinds.clone();
    more.insert("idempotency_ledger_new_total".into(), "counter".into());
    assert_eq!(uncovered(&more, &moving).len(), 1);
    let [rising, mut falling] = moving;
    falling.retain(|series| metric(series) != "idempotency_ledger_waiters");
    assert_eq!(uncovered(&kinds, &[rising, falling]).len(), 1);
}
