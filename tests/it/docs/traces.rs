//! `docs/traces.md`: its table of variables is printed from the program.

use idempotency_ledger::server::otlp::table;

use super::printed;

#[test]
fn the_page_shows_every_variable() {
    printed("docs/traces.md", "variables", &table());
}
