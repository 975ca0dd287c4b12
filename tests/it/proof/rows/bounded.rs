//! What operators ask of a consumer with many open claims, none of which stands next to another one in the table: it touches a
//! bounded number of pages.

use idempotency_ledger::store::POSTGRES_SETTINGS;
use sqlx::{AssertSqlSafe, Executor as _, PgConnection};

use super::plans::{Case, EVER, FROM_THE_END, FROM_THE_START, buffers, explain};
use crate::harness::postgres as pg;

const ROWS: u64 = 200_000;
/// How many consumers have turns in the table: more than a page has entries.
const CONSUMERS: u64 = 40;
/// How many pages one request may touch.
const PAGES_MAX: u64 = 2_000;

#[tokio::test]
async fn what_operators_ask_touches_2000_pages_at_most() {
    let database = pg::database().await;
    let mut connection = pg::shared().connect(&database).await;
    for statement in [
        "ALTER TABLE ledger.entries SET (autovacuum_enabled = off)".to_owned(),
        format!("INSERT INTO ledger.consumers (no, name) SELECT i, 'name-' || i FROM generate_series(1, {CONSUMERS}) AS i"),
        // Names are never forgotten: most consumers of an old ledger may have no entries.
        format!("INSERT INTO ledger.consumers (no, name) SELECT i, 'gone-' || i FROM generate_series({CONSUMERS} + 1, 10000) AS i"),
        "INSERT INTO ledger.sources VALUES (1, 'shop')".to_owned(),
        "INSERT INTO ledger.terms VALUES (1, 0, 0, 1, 1, 1, 1, 1)".to_owned(),
        // Consumer 1 has open claims alone, whose lease is over; the second one open claims that are held on; the others
        // have completed theirs. The first two marks are behind their claims, in the index; the third one's mark is not set.
        format!(
            "INSERT INTO ledger.entries
                (key, version, token, lease_until, source, terms, attempts, state, closed_by, attention, id, created_at,
                 consumer)
             SELECT md5('k' || i)::uuid, i, i, CASE WHEN i % {CONSUMERS} = 1 THEN 9000000000000000 ELSE i END, 1, 1, 1,
                    CASE WHEN i % {CONSUMERS} < 2 THEN 2 ELSE 4 END, CASE WHEN i % {CONSUMERS} < 2 THEN 0 ELSE 1 END,
                    CASE WHEN i % {CONSUMERS} < 2 THEN 2 END, 'id-' || i, i, i % {CONSUMERS} + 1
             FROM generate_series(1::bigint, {ROWS}) AS i"
        ),
        format!("UPDATE ledger.consumers SET marked_at = {ROWS} WHERE no < 3"),
    ] {
        connection.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    connection.execute(POSTGRES_SETTINGS).await.unwrap();
    connection.execute("ANALYZE").await.unwrap();
    let problems = beyond(&mut connection).await;
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

async fn beyond(connection: &mut PgConnection) -> Vec<String> {
    let list = |consumer, from, filter, looks| {
        format!("'name-{consumer}', {from}, {EVER}, {filter}, 100, {looks}, '', '', NULL, NULL")
    };
    let case = |name, statement, arguments| Case { name, statement, arguments, bound: PAGES_MAX };
    let (no_id, late) = ("NULL, 'no such', '{}', '{}', false", "NULL, '', '{2}', '{}', true");
    let open = "NULL, 'no such', '{1,2,3,5,6}', '{}', false";
    let (all_open, claims) = ("NULL, '', '{1,2,3,5,6}', '{}', false", "NULL, '', '{2}', '{}', false");
    let mut problems = Vec::new();
    for case in [
        // As `Listing::look_at` has it: 1,000 entries, divided among the ranges of an index that are read.
        case("oldest by prefix", "list_oldest", list(3, FROM_THE_START, no_id, 1_000)),
        case("newest by prefix", "list_newest", list(3, FROM_THE_END, no_id, 1_000)),
        case("open by prefix", "list_open_oldest", list(1, FROM_THE_START, open, 166)),
        case("expired, which all are", "list_open_oldest", list(1, FROM_THE_START, late, 500)),
        case("newest expired", "list_open_newest", list(1, FROM_THE_END, late, 500)),
        case("expired, which none is", "list_open_oldest", list(2, FROM_THE_START, late, 500)),
        case("expired beyond the mark", "list_open_newest", list(3, FROM_THE_END, late, 500)),
        case(
            "open by error",
            "list_open_oldest",
            format!(
                "'name-1', {FROM_THE_START}, {EVER}, {all_open}, 100, 166, 'absent', 'no such', NULL, NULL"
            ),
        ),
        case(
            "groups",
            "open_rows",
            format!("'name-1', {FROM_THE_END}, {EVER}, {claims}, 2, 1000, '', '', NULL, NULL"),
        ),
        case(
            "expired groups",
            "open_rows",
            format!("'name-1', {FROM_THE_END}, {EVER}, {late}, 2, 1000, '', '', NULL, NULL"),
        ),
        case("open consumers", "open_consumers", "'', '{1,2,3,5,6}', 100".to_owned()),
        case("open consumers, which none is", "open_consumers", "'', '{6}', 100".to_owned()),
        case("doubled consumers", "doubled_consumers", "'', '{}', 100".to_owned()),
        case("summary", "summary", "'{name-1}', '{10}', 1000".to_owned()),
        case("summary of what is not expired", "summary", "'{name-2}', '{10}', 1000".to_owned()),
        case("summary beyond the mark", "summary", "'{name-3}', '{10}', 1000".to_owned()),
        case("size", "size", "4001".to_owned()),
    ] {
        let touched = buffers(&explain(connection, &case).await["Plan"]);
        println!("{}: {touched} pages", case.name);
        if touched > case.bound {
            problems.push(format!("{} touches {touched} pages, of at most {}", case.name, case.bound));
        }
    }
    problems
}
