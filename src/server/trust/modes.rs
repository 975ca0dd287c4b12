//! Checks whether a file with a secret is readable by other users than its owner.

use std::fs::metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::geteuid;

const OF_GROUP: u32 = 0o040;
const OF_OTHERS: u32 = 0o004;

/// Who may read a file besides this server, and how to change that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    who: &'static str,
    chmod: &'static str,
}

/// `None` if no other user may read it. A server that does not own its file reads it by the file's group, as a pod reads a
/// mounted secret: then the group is not another one.
fn open(mode: u32, owner: u32, server: u32) -> Option<Open> {
    let owns = owner == server;
    match (mode & OF_OTHERS > 0, mode & OF_GROUP > 0 && owns) {
        (true, _) if owns => Some(Open { who: "every user of this machine", chmod: "600" }),
        (true, _) => Some(Open { who: "every user of this machine", chmod: "o=" }),
        (false, true) => Some(Open { who: "the group of the file", chmod: "600" }),
        (false, false) => None,
    }
}

/// Warns if others may read the file of this setting.
pub(super) fn warn_if_open(setting: &str, path: &Path) {
    // A file that is missing by now is reported by its reader.
    let Ok(file) = metadata(path) else { return };
    if let Some(Open { who, chmod }) = open(file.mode(), file.uid(), geteuid().as_raw()) {
        tracing::warn!(
            setting,
            path = %path.display(),
            mode = format!("{:04o}", file.mode() & 0o7777),
            "{who} may read this private key: chmod {chmod} {}",
            path.display()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_reports_other_readers() {
        let (own, other) = (1_000, 0);
        let all = Some(Open { who: "every user of this machine", chmod: "600" });
        let group = Some(Open { who: "the group of the file", chmod: "600" });
        let of_other = Some(Open { who: "every user of this machine", chmod: "o=" });
        for (mode, owner, is) in [
            (0o100_600, own, None),
            (0o100_400, own, None),
            (0o100_620, own, None),
            (0o100_640, own, group),
            (0o100_644, own, all),
            (0o100_604, own, all),
            (0o100_440, other, None),
            (0o100_444, other, of_other),
        ] {
            assert_eq!(open(mode, owner, own), is, "{mode:o} of {owner}");
        }
    }
}
