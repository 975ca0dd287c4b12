//! Signals to processes.

use std::process::{Command, Stdio};

/// Sends a signal to processes; those that have gone are no fault.
pub(crate) fn signal(name: &str, pids: &[u32]) {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    // The shell's own: a bare machine has no program of this name.
    let mut command = Command::new("sh");
    command.args(["-c", &format!("kill -{name} {}", pids.join(" "))]);
    let _status = command.stderr(Stdio::null()).status().unwrap();
}
