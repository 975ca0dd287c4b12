//! The program: see [`idempotency_ledger::command_line`].

use std::process::ExitCode;

/// Returns memory to the system within seconds after a burst of requests: with glibc's allocator a calm
/// server kept a third more memory, whatever its settings.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    idempotency_ledger::command_line::run()
}
