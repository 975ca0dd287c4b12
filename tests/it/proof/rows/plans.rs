//! What the server's own statements read, in its own kind of session, by `EXPLAIN (ANALYZE, BUFFERS)`.

use idempotency_ledger::domain::Key;
use idempotency_ledger::store::{POSTGRES_SETTINGS, POSTGRES_STATEMENTS};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, Row as _};
use uuid::Uuid;

use super::load::CONSUMERS;
use crate::harness::postgres::Cluster;
use crate::harness::random::Random;
use crate::proof::run::Run;

pub(super) const FROM_THE_START: &str = "-9223372036854775808, '00000000-0000-0000-0000-000000000000'";
pub(super) const FROM_THE_END: &str = "9223372036854775807, 'ffffffff-ffff-ffff-ffff-ffffffffffff'";
pub(super) const EVER: &str = "0, 9223372036854775807";

/// A statement with its arguments, and how many buffers it may touch, whatever the size of the table.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) statement: &'static str,
    pub(super) arguments: String,
    pub(super) bound: u64,
}

/// Explains them all; the numbers of buffers.
pub(super) async fn check(run: &Run, cluster: &Cluster, how: &str) -> String {
    let mut connection = cluster.connect("postgres").await;
    connection.execute(POSTGRES_SETTINGS).await.unwrap();
    let mut random = Random::new(run.seed);
    let mut told = Vec::new();
    let vacuumed: bool = connection
        .fetch_one("SELECT relallvisible > 0 FROM pg_class WHERE oid = 'ledger.entries'::regclass")
        .await
        .unwrap()
        .get(0);
    for case in cases(&mut connection, &mut random, vacuumed).await {
        let plan = explain(&mut connection, &case).await;
        let buffers = buffers(&plan["Plan"]);
        let whole = reads_all(&plan["Plan"]);
        let idle = ["purge", "delete"].contains(&case.statement) && deletes(&plan["Plan"]) == 0;
        assert!(!idle, "{} has deleted nothing: {plan}", case.name);
        if buffers > case.bound || whole {
            let problem = format!(
                "{how}: {} touches {buffers} buffers, of at most {}{}",
                case.name,
                case.bound,
                if whole { ", and reads the whole table or starts workers" } else { "" }
            );
            run.fail(problem, &[("plan", serde_json::to_string_pretty(&plan).unwrap())]);
        }
        told.push(format!("{} {buffers} of {}", case.name, case.bound));
    }
    told.join(", ")
}

/// Some entry that the purge leaves alone, as the server names it.
pub(super) async fn some_entry(connection: &mut PgConnection, random: &mut Random) -> Key {
    let from = Uuid::from_u64_pair(random.next() / 100 * 99, random.next());
    let statement = format!(
        "SELECT e.key, n.name AS consumer, s.name AS source, e.id FROM ledger.entries e
         JOIN ledger.consumers n ON n.no = e.consumer JOIN ledger.sources s ON s.no = e.source
         WHERE e.key >= '{from}' AND e.created_at > ledger.clock() - (SELECT t.retention FROM ledger.terms t WHERE t.no = e.terms)
         ORDER BY e.key LIMIT 1"
    );
    let row = connection.fetch_one(AssertSqlSafe(statement)).await.unwrap();
    let text = |name| row.get::<String, _>(name);
    let key = Key::new(&text("consumer"), &text("source"), &text("id"));
    assert_eq!(key.hash(), row.get::<Uuid, _>("key"), "the table has other hashes than the ledger");
    key
}

fn consumer(random: &mut Random) -> String {
    format!("consumer-{:02}", 1 + random.below(CONSUMERS))
}

async fn cases(connection: &mut PgConnection, random: &mut Random, vacuumed: bool) -> Vec<Case> {
    let mut keys = Vec::new();
    for _ in 0..1_000 {
        keys.push(some_entry(connection, random).await.hash());
    }
    keys.sort_unstable();
    let keys: Vec<String> = keys.iter().map(Uuid::to_string).collect();
    let due = connection
        .fetch_all(
            "SELECT key::text, version, place FROM (SELECT key, version, ctid::text AS place FROM ledger.entries
             WHERE consumer = 1 ORDER BY created_at LIMIT 100) AS e ORDER BY key",
        )
        .await
        .unwrap();
    let of_due =
        |value: fn(&sqlx::postgres::PgRow) -> String| due.iter().map(value).collect::<Vec<_>>().join(",");
    let (due_keys, due_versions) =
        (of_due(|row| row.get("key")), of_due(|row| row.get::<i64, _>("version").to_string()));
    let due_places = of_due(|row| format!("\"{}\"", row.get::<String, _>("place")));
    let policy_epoch: i64 =
        connection.fetch_one("SELECT policy_epoch FROM ledger.meta").await.unwrap().get(0);
    let one = &due[0];
    let (one_key, one_version) = (one.get::<String, _>("key"), one.get::<i64, _>("version"));
    let name = consumer(random);
    // Without a filter a page's worth is looked at, with one up to 1,000 entries: as `Listing::look_at` has it.
    let list = |from: &str, filter: &str| {
        format!("'{name}', {from}, {EVER}, {filter}, 100, 100, '', '', NULL, NULL")
    };
    let filtered = |from: &str, filter: &str| {
        format!("'{name}', {from}, {EVER}, {filter}, 100, 1000, '', '', NULL, NULL")
    };
    let marked = "NULL, '', '{6}', '{}', false";
    let case = |name, statement, arguments, bound| Case { name, statement, arguments, bound };
    // Until a vacuum has marked the pages of the table, each of up to 1,001 counted entries of six states costs one more page, which
    // shows whether the entry is visible: at 20 million rows 2,808 of 3,883 pages.
    let summary = if vacuumed { 2_000 } else { 2_000 + 6 * 1_001 };
    vec![
        case("get", "load_one", format!("'{}'", keys[500]), 20),
        case("load of 1000", "load", format!("'{{{}}}'", keys.join(",")), 12_000),
        case("oldest page", "list_oldest", list(FROM_THE_START, "NULL, '', '{}', '{}', false"), 1_500),
        case("newest page", "list_newest", list(FROM_THE_END, "NULL, '', '{}', '{}', false"), 1_500),
        case("oldest parked", "list_open_oldest", list(FROM_THE_START, marked), 1_500),
        case("newest parked", "list_open_newest", list(FROM_THE_END, marked), 1_500),
        case(
            "oldest by prefix",
            "list_oldest",
            filtered(FROM_THE_START, "NULL, 'f', '{}', '{}', false"),
            2_000,
        ),
        case("completed", "list_newest", filtered(FROM_THE_END, "'shop-1', '', '{4}', '{}', false"), 2_000),
        case("expired", "list_open_oldest", filtered(FROM_THE_START, "NULL, '', '{2}', '{}', true"), 2_500),
        case(
            "oldest doubled",
            "list_doubled_oldest",
            list(FROM_THE_START, "NULL, '', '{}', '{}', false"),
            100,
        ),
        case("newest doubled", "list_doubled_newest", list(FROM_THE_END, "NULL, '', '{}', '{}', false"), 100),
        case(
            "groups",
            "open_rows",
            format!("'{name}', {FROM_THE_END}, {EVER}, {marked}, 6, 1000, '', '', NULL, NULL"),
            2_000,
        ),
        case("open consumers", "open_consumers", "'', '{1,2,3,5,6}', 100".to_owned(), 2_000),
        case("doubled consumers", "doubled_consumers", "'', '{}', 100".to_owned(), 2_000),
        case("doubled effects", "doubled", format!("'{{{name}}}'"), 100),
        case("summary", "summary", format!("'{{{name}}}', '{{10}}', 1000"), summary),
        case("size", "size", "4001".to_owned(), 4_100),
        case("sample", "sampled", format!("0.1, '{{{name}}}'"), 12_000),
        case("consumers", "consumers", "'', 100".to_owned(), 1_000),
        case("unmarked", "unmarked", "0, 100, 0".to_owned(), 1_000),
        case("turn", "purge_take", "60000000, 172800000000".to_owned(), 20),
        case("created", "created", "1, -1, 9223372036854775807, 500".to_owned(), 1_500),
        case("next to be created", "created_first", "1, 0".to_owned(), 20),
        case("backlog", "backlog", "'{1,2}', '{0,0}', '{9223372036854775807,0}', 10001".to_owned(), 20_000),
        case(
            "purge by keys",
            "purge",
            format!("'{{{due_keys}}}', '{{{due_versions}}}', 0, {policy_epoch}, 60000000, '{{}}'"),
            5_000,
        ),
        // A row is touched twice, to be found and to be deleted: no index is.
        case(
            "purge by places",
            "purge",
            format!(
                "'{{{due_keys}}}', '{{{due_versions}}}', 0, {policy_epoch}, 60000000, '{{{due_places}}}'"
            ),
            250,
        ),
        case("delete", "delete", format!("'{one_key}', {one_version}, 0, 60000000"), 20),
    ]
}

pub(super) async fn explain(connection: &mut PgConnection, case: &Case) -> Value {
    let head = format!("-- ledger.{}\n", case.statement);
    let statement = POSTGRES_STATEMENTS.iter().find(|statement| statement.starts_with(&head));
    let statement = statement.unwrap_or_else(|| panic!("no statement is named {}", case.statement));
    for plain in ["DEALLOCATE ALL".to_owned(), "BEGIN".to_owned(), format!("PREPARE asked AS {statement}")] {
        connection.execute(AssertSqlSafe(plain)).await.unwrap();
    }
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked ({})", case.arguments);
    let row = connection.fetch_one(AssertSqlSafe(explain)).await;
    let row = row.unwrap_or_else(|error| panic!("{}: {error}", case.name));
    let text: String = row.try_get_unchecked(0).unwrap();
    connection.execute("ROLLBACK").await.unwrap();
    let mut all: Vec<Value> = serde_json::from_str(&text).unwrap();
    all.remove(0)
}

/// Found in memory or not: what was read.
pub(super) fn buffers(plan: &Value) -> u64 {
    let of = |name: &str| plan[name].as_u64().unwrap();
    of("Shared Hit Blocks") + of("Shared Read Blocks")
}

/// Somewhere in the plan all of the table is read, or by several at once.
fn reads_all(plan: &Value) -> bool {
    let kind = plan["Node Type"].as_str().unwrap();
    let whole = (kind == "Seq Scan" && plan["Relation Name"] == "entries") || kind.starts_with("Gather");
    let parts = plan["Plans"].as_array();
    whole || parts.is_some_and(|parts| parts.iter().any(reads_all))
}

/// How many rows a deletion has found.
fn deletes(plan: &Value) -> u64 {
    plan["Plans"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|part| part["Actual Rows"].as_f64().unwrap() as u64)
        .sum()
}
