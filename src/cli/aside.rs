//! What a command says on standard error, next to its answer.

use std::io;

use crate::common::patient_write::write_all;

/// A line. A standard error that is closed or full does not end the command, nor change its exit code.
pub(super) fn aside(text: &str) {
    let _unread = write_all(&mut io::stderr().lock(), &mut format!("{text}\n").as_bytes());
}
