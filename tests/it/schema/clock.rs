//! Every statement that reads the clock reads it beside `ledger.meta`: a database that is spread over several nodes
//! would answer with the clock of another one elsewhere.

use idempotency_ledger::store::POSTGRES_STATEMENTS;

const CLOCK: &str = "ledger.clock()";

/// The part of a statement, between brackets or from end to end, in which the clock is read at this place.
fn around(statement: &str, place: usize) -> &str {
    let mut depth = 0;
    let begin = statement[..place].rfind(|sign| {
        depth += i32::from(sign == ')') - i32::from(sign == '(');
        depth < 0 && sign == '('
    });
    // A call has brackets of its own: those of an expression are no query.
    let begin = begin.map_or(0, |begin| begin + 1);
    let mut depth = 0;
    let end = statement[place..].find(|sign| {
        depth += i32::from(sign == '(') - i32::from(sign == ')');
        depth < 0
    });
    &statement[begin..end.map_or(statement.len(), |end| place + end)]
}

/// The query around a place: brackets that hold no query are a part of the one around them.
fn query(statement: &str, place: usize) -> &str {
    let mut part = around(statement, place);
    while !part.contains("SELECT") && !part.contains("UPDATE") && part.len() < statement.len() {
        let begin = part.as_ptr() as usize - statement.as_ptr() as usize;
        part = around(statement, begin - 1);
    }
    part
}

fn beside_meta(statement: &str) -> bool {
    statement.match_indices(CLOCK).all(|(place, _)| {
        let query = query(statement, place);
        query.contains("FROM ledger.meta") || query.contains("UPDATE ledger.meta SET")
    })
}

#[test]
fn the_clock_is_read_beside_meta() {
    for (statement, fine) in [
        ("SELECT 1", true),
        ("SELECT ledger.clock() FROM ledger.meta", true),
        ("WITH c AS (SELECT ledger.clock() AS now) SELECT * FROM c JOIN ledger.meta m ON true", false),
        ("UPDATE ledger.meta SET policy_epoch = greatest(policy_epoch + 1, ledger.clock())", true),
        ("SELECT (SELECT token_offset FROM ledger.meta), ledger.clock()", true),
        ("SELECT 1 WHERE EXISTS (SELECT ledger.clock())", false),
    ] {
        assert_eq!(beside_meta(statement), fine, "{statement}");
    }
    let wrong: Vec<&str> = POSTGRES_STATEMENTS.iter().copied().filter(|one| !beside_meta(one)).collect();
    let names: Vec<&str> = wrong.iter().filter_map(|one| one.lines().next()).collect();
    assert!(names.is_empty(), "{names:?}");
}
