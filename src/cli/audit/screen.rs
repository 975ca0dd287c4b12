//! The screen of the audit: each event, with what it changed.

use prost_types::Timestamp;

use crate::cli::output::Output;
use crate::cli::table::{Column, Table};
use crate::cli::text::{ago, clean, when};
use crate::proto::{AuditChange, AuditEvent};

const NOTHING: &str = "-";
const COLUMNS: [Column; 7] = [
    Column::whole("WHEN"),
    Column::name("ACTOR").left_out(3),
    Column::whole("ACTION"),
    Column::name("CONSUMER").left_out(2),
    Column::whole("KEY HASH").left_out(1),
    Column::text("CHANGED"),
    Column::text("REASON"),
];

/// How many of the columns a narrow terminal has: what was changed, and why, follows each event as a whole.
const NARROW: usize = 5;

/// A page of events.
pub(super) fn table(events: &[AuditEvent], first: bool, output: Output, now: &Timestamp) -> Table {
    let narrow = output.is_narrow();
    let mut table = Table::of(if narrow { &COLUMNS[..NARROW] } else { &COLUMNS[..] });
    if !first {
        table = table.without_headings();
    }
    for event in events {
        let at = event.at.as_ref();
        let instant =
            if narrow { format!("{} ago", ago(at, now)) } else { at.map_or_else(|| "-".to_owned(), when) };
        let key = if event.key_hash.is_empty() { "-" } else { &event.key_hash };
        let mut row = vec![
            instant.into(),
            clean(&event.actor).into(),
            clean(&event.action).into(),
            clean(&event.consumer).into(),
            clean(key).into(),
        ];
        let changed = changed(&event.changes);
        if narrow {
            table.row(row);
            if changed != NOTHING {
                table.below(changed);
            }
            table.below(format!("reason: {}", clean(&event.reason)));
            continue;
        }
        row.extend([changed.into(), clean(&event.reason).into()]);
        table.row(row);
    }
    table
}

/// What an event changed: `PARKED → RECEIVED, attempts 3 → 0`.
fn changed(changes: &[AuditChange]) -> String {
    let has_state = changes.iter().any(|change| change.path == "state");
    // The cause belongs to the state.
    let shown = changes.iter().filter(|change| !(has_state && change.path == "cause"));
    let texts: Vec<String> = shown.map(one).collect();
    if texts.is_empty() { NOTHING.to_owned() } else { clean(&texts.join(", ")) }
}

fn one(change: &AuditChange) -> String {
    let AuditChange { path, from, to } = change;
    match (path.as_str(), from.as_str(), to.as_str()) {
        ("state", "", to) => to.to_owned(),
        ("state", from, "") => format!("{from} → gone"),
        ("state", from, to) => format!("{from} → {to}"),
        ("stored", "", to) => format!("{to} stored"),
        (path, "", to) => format!("{path} {to}"),
        (path, from, "") => format!("{path} {from} → -"),
        (path, from, to) => format!("{path} {from} → {to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::screens::{NOW, before, check};

    fn change(path: &str, from: &str, to: &str) -> AuditChange {
        AuditChange { path: path.into(), from: from.into(), to: to.into() }
    }

    #[test]
    fn audit_screens_show_what_changed() {
        let event = |ago, action: &str, key: &str, changes: Vec<AuditChange>, reason: &str| AuditEvent {
            request_id: "r".into(),
            at: before(ago),
            actor: "jwt:corp:alice@shop.example".into(),
            action: action.into(),
            consumer: "payments".into(),
            key_hash: key.into(),
            reason: reason.into(),
            changes,
            ..AuditEvent::default()
        };
        let redriven = vec![
            change("state", "PARKED", "RECEIVED"),
            change("cause", "CONSUMER", ""),
            change("attempts", "3", "0"),
        ];
        let hash = "f804916b-9e34-d3d3-0808-c5a1cab555eb";
        let events = [
            event(240, "REDRIVE", hash, redriven, "the provider is back, see ticket 4711"),
            event(
                4_000,
                "RESOLVE_FAILED_TERMINAL",
                hash,
                vec![change("state", "PARKED", "FAILED_TERMINAL")],
                "no",
            ),
            event(
                90_000,
                "SET_POLICY",
                "",
                vec![change("lease", "30s", "2m"), change("disabled", "false", "true")],
                "slow provider",
            ),
            event(187_200, "HOLD_CONSUMERS", "", Vec::new(), "migration"),
        ];
        let now = Timestamp { seconds: NOW, nanos: 0 };
        check("audit", |output| {
            let fitted = table(&events, true, output, &now).fitted(output, output.width());
            let note = fitted.note();
            fitted.lines.into_iter().chain(note).collect()
        });
        let piped = table(&events, true, Output::plain(), &now).lines(Output::plain());
        assert!(
            piped[1].starts_with("2026-11-21T13:07:30Z  jwt:corp:alice@shop.example  REDRIVE "),
            "{piped:?}"
        );
    }

    #[test]
    fn changes_are_shown_from_before_to_after() {
        for (changes, text) in [
            (vec![], "-"),
            (
                vec![change("state", "PARKED", "RECEIVED"), change("cause", "OPERATOR", "")],
                "PARKED → RECEIVED",
            ),
            (vec![change("state", "PARKED", "")], "PARKED → gone"),
            (vec![change("state", "", "COMPLETED"), change("stored", "", "12")], "COMPLETED, 12 stored"),
            (vec![change("lease", "30s", "2m")], "lease 30s → 2m"),
            (vec![change("lease", "", "2m")], "lease 2m"),
            (vec![change("lease", "40s", ""), change("a", "b\u{1b}", "c")], "lease 40s → -, a b\u{fffd} → c"),
        ] {
            assert_eq!(changed(&changes), text);
        }
    }
}
