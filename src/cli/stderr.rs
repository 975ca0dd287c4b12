//! Messages on standard error, next to the answer on standard output.

use std::io;

use crate::common::patient_write::write_all;

/// Prints a line. A standard error that is closed or full does not end the command, nor change its exit code.
pub(super) fn print_stderr(text: &str) {
    let _unread = write_all(&mut io::stderr().lock(), &mut format!("{text}\n").as_bytes());
}
