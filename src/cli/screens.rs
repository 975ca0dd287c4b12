//! Golden screens: what commands show on terminals of 80 and of 120 columns, over a fixed clock. `LEDGER_PRINT_DOCS=1 cargo test
//! --lib screen` writes them.

use std::fs;
use std::path::PathBuf;

use console::measure_text_width;
use prost_types::Timestamp;

use super::output::Output;

/// The operator's clock in all screens: 2026-11-21T13:11:30Z.
pub(super) const NOW: i64 = 1_795_266_690;

/// An instant, by how many seconds it lies before the clock of the screens.
#[allow(clippy::unnecessary_wraps, reason = "as messages have it")]
pub(super) fn before(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds: NOW - seconds, nanos: 0 })
}

/// Compares a screen with its golden files. No line is wider than the terminal, except a command to be pasted, which a terminal
/// wraps without a line break.
#[track_caller]
pub(super) fn check(name: &str, screen: impl Fn(Output) -> Vec<String>) {
    for columns in [80, 120] {
        let lines = screen(Output::of_width(columns));
        for line in &lines {
            let fits = measure_text_width(line) <= columns || line.starts_with("  ledger ");
            assert!(fits, "{name} at {columns} columns: {line}");
            assert!(!line.contains('\u{1b}'), "{name} at {columns} columns has colours: {line}");
        }
        let file =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/cli/screens/{name}-{columns}.txt"));
        let text = lines.join("\n") + "\n";
        if std::env::var_os("LEDGER_PRINT_DOCS").is_some() {
            fs::write(&file, &text).unwrap();
        }
        let golden = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(golden, text, "LEDGER_PRINT_DOCS=1 writes {}", file.display());
    }
}
