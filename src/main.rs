//! The program: see [`idempotency_ledger::command_line`].

use std::process::ExitCode;

/// Gives memory back within seconds after a flood of requests: glibc's allocator kept a third of a calm
/// server's memory more, whatever its settings.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    idempotency_ledger::command_line::run()
}
