//! What a server may take of memory: the table of the page adds it up, and the chart's limit holds the sum.

use std::fmt::Write as _;

use super::{printed, read};

const PAGE: &str = "docs/configuration.md";
const CHART: &str = "deploy/helm/idempotency-ledger/values.yaml";
const MIB: u64 = 1 << 20;

/// The default of a setting, from the table of the page.
fn default(setting: &str) -> u64 {
    let page = read(PAGE);
    let row = page.lines().find(|line| line.starts_with(&format!("| `{setting}` |"))).expect(setting);
    row.split('|').nth(2).expect("a default").trim().parse().expect(setting)
}

/// What takes memory, by which setting it is bounded, and how much that is in MiB.
fn rows() -> Vec<(&'static str, &'static str, u64)> {
    let (server, queue) = (default("server_bytes_max") / MIB, default("queue_bytes_max") / MIB);
    vec![
        ("the process: sessions, policies, metrics, log (37 to 45 MiB without calls)", "", 64),
        ("requests under way", "`server_bytes_max`", server),
        ("calls of health, and reflection where it needs no credential", "`server_bytes_max`", server / 8),
        ("requests while they are decoded, one for each thread", "`batch_bytes_max`", 32),
        (
            "answers that are not read: half of the setting, and twice that until streams are reset",
            "`server_bytes_max`",
            server,
        ),
        ("headers and trailers of errors that sockets have not taken", "`server_bytes_max`", server / 8),
        ("commands that wait or are at work", "`queue_bytes_max`", queue),
        (
            "10,000 calls that wait for another verdict, 16 KiB each with the largest headers",
            "",
            10_000 * 16 / 1_024,
        ),
        (
            "connections, 64 KiB each: TLS and HTTP/2 (42 KiB measured), and 16 KiB that the socket has not taken; \
             one that takes nothing has up to 64 KiB of TLS more for `stall_max`",
            "`connections_max`",
            default("connections_max") * 64 / 1_024,
        ),
    ]
}

#[test]
fn the_memory_of_the_page_is_added_up_and_fits_the_chart() {
    let rows = rows();
    let sum: u64 = rows.iter().map(|(.., mib)| mib).sum();
    let mut table = "| what | bounded by | MiB at most |\n| --- | --- | --- |\n".to_owned();
    for (what, setting, mib) in &rows {
        writeln!(table, "| {what} | {setting} | {mib} |").unwrap();
    }
    writeln!(table, "| all | | {sum} |").unwrap();
    printed(PAGE, "memory", &table);
    let chart = read(CHART);
    let limits = chart.split_once("  limits:\n").expect("limits").1;
    let limit =
        limits.trim_start().strip_prefix("memory: ").and_then(|rest| rest.split_once("Mi")).expect("in Mi").0;
    let limit: u64 = limit.parse().expect("a number");
    assert!((sum..sum + sum / 4).contains(&limit), "{CHART} has a limit of {limit} MiB for {sum} MiB");
}
