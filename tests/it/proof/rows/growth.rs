//! A session keeps its plans until the next ANALYZE. Each is made while the table has few rows, or none, and
//! must still be right when the table has many.

use idempotency_ledger::store::{POSTGRES_SETTINGS, POSTGRES_STATEMENTS};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, Row as _};

use crate::harness::postgres as pg;

/// How many rows the table has when the plans are made and the statistics taken.
const ANALYSED: [u64; 6] = [0, 1, 5, 20, 60, 1_000];
/// How many it has in the end.
const GROWN: u64 = 50_000;
const BATCH: u64 = 100;

/// How the statement finds its entries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// By the primary key, each.
    Key,
    /// By a condition on any index.
    Condition,
    /// As `Condition`; the server plans it each time.
    ConditionPlannedAnew,
}

struct Case {
    statement: &'static str,
    arguments: String,
    by: By,
    /// How many buffers it may touch on the table of `GROWN` rows.
    bound: u64,
}

#[tokio::test]
async fn a_plan_that_was_made_for_few_rows_is_right_for_many() {
    let mut problems = Vec::new();
    for rows in ANALYSED {
        problems.extend(grown(rows, "i, i % 3 + 1", "ANALYZE").await);
    }
    // As a database is just after its installation: nobody knows that the table of the clock has one row.
    problems.extend(grown(0, "i, i % 3 + 1", "ANALYZE ledger.entries").await);
    // All of one consumer, and a thousand made at once, as many as one statement makes: the columns before the key
    // in other indexes tell little apart.
    problems.extend(grown(1_000, "i / 1000, 1", "ANALYZE").await);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

async fn grown(rows: u64, columns: &str, analyze: &str) -> Vec<String> {
    let database = pg::database().await;
    let mut connection = pg::shared().connect(&database).await;
    let names = "SELECT i, 'name-' || i FROM generate_series(1, 3) AS i";
    for statement in [
        "ALTER TABLE ledger.entries SET (autovacuum_enabled = off)".to_owned(),
        format!("INSERT INTO ledger.consumers (no, name) {names}"),
        format!("INSERT INTO ledger.sources {names}"),
        "INSERT INTO ledger.terms VALUES (1, 0, 0, 1, 1, 1, 1, 1)".to_owned(),
        fill(1, rows, columns),
        "VACUUM ANALYZE ledger.entries".to_owned(),
        analyze.to_owned(),
    ] {
        connection.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    connection.execute(POSTGRES_SETTINGS).await.unwrap();
    let cases = cases(&mut connection).await;
    let mut problems = Vec::new();
    for case in &cases {
        connection.execute(AssertSqlSafe(prepare(case))).await.unwrap();
        // The plan is made now, and kept.
        let plan = explain(&mut connection, case, "").await;
        problems.extend(astray(&plan, case, rows));
    }
    connection.execute(AssertSqlSafe(fill(rows + 1, GROWN, columns))).await.unwrap();
    for case in &cases {
        if case.by == By::ConditionPlannedAnew {
            let again = format!("DEALLOCATE {}; {}", case.statement, prepare(case));
            connection.execute(AssertSqlSafe(again)).await.unwrap();
        }
        let plan = explain(&mut connection, case, "ANALYZE, BUFFERS, ").await;
        problems.extend(astray(&plan, case, rows));
        let of = |name: &str| plan[name].as_u64().unwrap();
        let touched = of("Shared Hit Blocks") + of("Shared Read Blocks");
        if touched > case.bound {
            problems.push(format!(
                "planned at {rows} rows, {} touches {touched} buffers at {GROWN}, of at most {}",
                case.statement, case.bound
            ));
        }
    }
    problems
}

/// Rows `from` to `until`; of a hundred one is PARKED, the others are IN_PROGRESS. Of a thousand one has a doubled effect.
fn fill(from: u64, until: u64, columns: &str) -> String {
    format!(
        "INSERT INTO ledger.entries
            (key, version, token, lease_until, source, terms, attempts, state, cause, closed_by, attention, doubled, id,
             next_at, erase_at, created_at, consumer)
         SELECT md5('k' || i)::uuid, i, i, i, i % 3 + 1, 1, 1,
                CASE i % 100 WHEN 0 THEN 6 ELSE 2 END, CASE i % 100 WHEN 0 THEN 1 END, 0,
                CASE i % 100 WHEN 0 THEN 6 END, CASE i % 1000 WHEN 1 THEN true END, 'id-' || i,
                CASE WHEN i % 2 = 0 THEN i END, CASE WHEN i % 2 = 1 THEN i END, {columns}
         FROM generate_series({from}::bigint, {until}) AS i"
    )
}

fn prepare(case: &Case) -> String {
    let head = format!("-- ledger.{}\n", case.statement);
    let statement = POSTGRES_STATEMENTS.iter().find(|statement| statement.starts_with(&head));
    format!("PREPARE {} AS {}", case.statement, statement.unwrap_or_else(|| panic!("{head}")))
}

async fn explain(connection: &mut PgConnection, case: &Case, how: &str) -> Value {
    connection.execute("BEGIN").await.unwrap();
    let explain = format!("EXPLAIN ({how}FORMAT JSON) EXECUTE {} ({})", case.statement, case.arguments);
    let row = connection.fetch_one(AssertSqlSafe(explain)).await;
    let row = row.unwrap_or_else(|error| panic!("{}: {error}", case.statement));
    let text: String = row.try_get_unchecked(0).unwrap();
    connection.execute("ROLLBACK").await.unwrap();
    let mut all: Vec<Value> = serde_json::from_str(&text).unwrap();
    all.remove(0)["Plan"].take()
}

/// What the plan reads of entries in another way than it should, and what it copies.
fn astray(plan: &Value, case: &Case, rows: u64) -> Vec<String> {
    let mut problems = Vec::new();
    let kind = plan["Node Type"].as_str().unwrap();
    let index = plan["Index Name"].as_str().unwrap_or_default();
    if kind == "Seq Scan" && plan["Relation Name"] == "entries" {
        problems.push("reads the whole table".to_owned());
    }
    if kind == "Materialize" && case.by == By::Key {
        problems.push("keeps a copy of each row for a join".to_owned());
    }
    if index.starts_with("entries_") {
        match plan["Index Cond"].as_str() {
            None => problems.push(format!("reads all of {index}")),
            Some(condition) if case.by == By::Key && index != "entries_pkey" => {
                problems.push(format!("looks in {index} for {condition}"));
            }
            Some(_) => {}
        }
    }
    for problem in &mut problems {
        *problem = format!("planned at {rows} rows, {} {problem}", case.statement);
    }
    let parts = plan["Plans"].as_array().into_iter().flatten();
    problems.extend(parts.flat_map(|part| astray(part, case, rows)));
    problems
}

async fn cases(connection: &mut PgConnection) -> Vec<Case> {
    let row = connection
        .fetch_one(AssertSqlSafe(format!(
            "SELECT array_agg(key ORDER BY key)::text, array_agg(i ORDER BY key)::text, (array_agg(key))[1]::text,
                    (array_agg(i))[1]
             FROM (SELECT i, md5('k' || i)::uuid AS key
                   FROM generate_series(1, {GROWN}::bigint, {GROWN} / {BATCH}) AS i) AS made"
        )))
        .await
        .unwrap();
    let quoted = |place: usize| format!("'{}'", row.get::<String, _>(place));
    let (keys, numbers) = (quoted(0), quoted(1));
    let (one_key, one_number) = (quoted(2), row.get::<i64, _>(3));
    let many =
        |count: usize, value: &str| vec![format!("array_fill({value}, ARRAY[{BATCH}])"); count].join(", ");
    let (big, int, small) = ("1::bigint", "1::int", "2::smallint");
    let (flag, text, bytes) = ("false", "'x'::text", "'x'::bytea");
    let replace = [
        // The version that is expected is the one before: that of the row.
        format!("{keys}, (SELECT 1)"),
        many(1, small),
        many(1, "9223372036854775807::bigint"),
        keys.clone(),
        numbers.clone(),
        many(1, big),
        many(2, int),
        many(2, small),
        many(8, big),
        many(2, small),
        many(4, flag),
        many(1, int),
        many(1, flag),
        many(1, int),
        many(3, text),
        many(3, bytes),
    ]
    .join(", ")
    .replace("(SELECT 1)", &next(&row.get::<String, _>(1)));
    // What the clock may show: the earliest instant, the longest jump, the highest token.
    let clock = "0, 9223372036854775807, 9007199253740991";
    let insert = |keys: &str| {
        let columns =
            [many(2, big), many(4, int), many(1, text), keys.to_owned(), many(1, text), many(2, bytes)];
        format!("0, 9223372036854775807, {keys}, {keys}, {}, {clock}", columns.join(", "))
    };
    let insert_one = [
        format!("0, 9223372036854775807, {one_key}, {one_key}"),
        ["1"; 6].join(", "),
        format!("'x', {one_key}, 'x', 'x', 'x', {clock}"),
    ]
    .join(", ");
    let list = |from: &str, states: &str| {
        format!(
            "'name-1', {from}, 0, 9223372036854775807, NULL, '', '{states}', '{{}}', false, {BATCH}, {BATCH}, \
             '', '', NULL, NULL"
        )
    };
    let first = "-9223372036854775808, '00000000-0000-0000-0000-000000000000'";
    let last = "9223372036854775807, 'ffffffff-ffff-ffff-ffff-ffffffffffff'";
    let case = |statement, by, a_row: u64, arguments: String| Case {
        statement,
        arguments,
        by,
        bound: a_row * BATCH,
    };
    vec![
        case("load", By::Key, 10, keys.clone()),
        case("load_one", By::Key, 1, one_key.clone()),
        // Each row is looked for to be inserted, met, and looked for to be given back.
        case("insert", By::Key, 12, insert(&keys)),
        case("insert_one", By::Key, 1, insert_one),
        case(
            "complete",
            By::Key,
            10,
            format!("{keys}, {numbers}, {}, {}, {}", many(1, int), many(1, big), many(1, bytes)),
        ),
        case("complete_one", By::Key, 1, format!("{one_key}, {one_number}, 1, 1, 'x'")),
        case("replace", By::Key, 40, replace),
        case("locked", By::Key, 20, keys.clone()),
        case("mark", By::Key, 40, keys.clone()),
        case("purge", By::Key, 10, format!("{keys}, {numbers}, 0, 0, 60000000, '{{}}'")),
        case("delete", By::Key, 1, format!("{one_key}, {one_number}, 0, 60000000")),
        case(
            "delete_unreadable",
            By::Key,
            1,
            format!("{one_key}, {one_number}, 0, 60000000, 9007199254740990"),
        ),
        case("purge_take", By::Condition, 1, "1, 1".to_owned()),
        case("created", By::Condition, 12, format!("1, -1, 9223372036854775807, {BATCH}")),
        case("created_first", By::Condition, 1, "1, 20000".to_owned()),
        case(
            "backlog",
            By::Condition,
            6,
            format!("'{{1,2,3}}', '{{0,0,0}}', '{{60000,60000,60000}}', {BATCH}"),
        ),
        case("consumers", By::Condition, 1, format!("'', {BATCH}")),
        case("unmarked", By::Condition, 1, format!("0, {BATCH}, 0")),
        case("unmarked_open", By::Condition, 3, format!("1, 9223372036854775807, {BATCH}")),
        case("summary", By::ConditionPlannedAnew, 20, "'{name-1}', '{10}', 1000".to_owned()),
        case(
            "open_rows",
            By::ConditionPlannedAnew,
            20,
            format!(
                "'name-1', {last}, 0, 9223372036854775807, NULL, '', '{{6}}', '{{}}', false, 6, {BATCH}, '', '', NULL, NULL"
            ),
        ),
        case("open_consumers", By::ConditionPlannedAnew, 20, format!("'', '{{6}}', {BATCH}")),
        case("doubled_consumers", By::ConditionPlannedAnew, 20, format!("'', '{{}}', {BATCH}")),
        case("list_oldest", By::ConditionPlannedAnew, 20, list(first, "{}")),
        case("list_newest", By::ConditionPlannedAnew, 20, list(last, "{}")),
        case("list_open_oldest", By::ConditionPlannedAnew, 20, list(first, "{6}")),
        case("list_open_newest", By::ConditionPlannedAnew, 20, list(last, "{6}")),
        case("list_doubled_oldest", By::ConditionPlannedAnew, 20, list(first, "{}")),
        case("list_doubled_newest", By::ConditionPlannedAnew, 20, list(last, "{}")),
        // The row, its lock, and where its message would be.
        case(
            "inbox_take",
            By::Condition,
            8,
            format!("'name-1', 9223372036854775807, -1, {one_key}, {BATCH}"),
        ),
        case("inbox_taken", By::Key, 12, keys.clone()),
        case("inbox_oldest", By::Condition, 1, format!("'name-1', 9223372036854775807, -1, {one_key}, 10")),
        case("inbox_next", By::Condition, 1, "'name-1', 20000".to_owned()),
        case("inbox_count", By::Condition, 4, format!("'name-1', {BATCH}")),
        case("inbox_erase", By::Condition, 24, format!("{BATCH}")),
        case("doubled", By::ConditionPlannedAnew, 1, "'{name-1}'".to_owned()),
    ]
}

/// The numbers, each one higher.
fn next(numbers: &str) -> String {
    let all = numbers.trim_matches(['{', '}']).split(',').map(|one| one.parse::<i64>().unwrap() + 1);
    format!("'{{{}}}'", all.map(|one| one.to_string()).collect::<Vec<_>>().join(","))
}
