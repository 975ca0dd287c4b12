//! The log of a running server in a file. A thread of the server's own writes it: a line may arrive after the answer.

use std::path::Path;
use std::time::Duration;

/// How long a log is looked at that does not grow. The server's thread writes within microseconds; the rest is for a machine
/// that is busy.
const STILL_FOR: Duration = Duration::from_millis(100);

/// What is in it once it has not grown for a while.
pub(crate) fn settled(log: &Path) -> String {
    let mut before = None;
    loop {
        let text = std::fs::read_to_string(log).unwrap();
        if before.replace(text.len()) == Some(text.len()) {
            return text;
        }
        std::thread::sleep(STILL_FOR);
    }
}
