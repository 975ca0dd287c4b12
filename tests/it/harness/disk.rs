//! A file system of a few megabytes, so that a disk can be full.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::postgres::is_root;

/// Ends what may be left of the mount when it is dropped.
pub(crate) struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    pub(crate) fn new(folder: &Path) -> SmallDisk {
        SmallDisk { folder: folder.to_owned() }
    }

    /// A command to which a program and its arguments are added: that program sees the folder, with
    /// what is in it, as a file system of its own. It runs as root, or as one who seems to be.
    pub(crate) fn command(&self, size: &str) -> Command {
        let folder = self.folder.display();
        let mount = format!(
            "mv '{folder}' '{folder}.before' && mkdir '{folder}' && mount -t tmpfs -o size={size} tmpfs '{folder}' && \
             cp -a '{folder}.before/.' '{folder}/' && chown --reference='{folder}.before' '{folder}' && \
             chmod 700 '{folder}' && exec \"$@\""
        );
        let mut command = Command::new("unshare");
        // Root may mount, and within a chroot nobody may make a user namespace.
        if !is_root() {
            command.arg("--map-root-user");
        } else if !own_mounts() {
            command.args(["--propagation", "unchanged"]);
        }
        command.args(["--mount", "sh", "-c", &mount, "sh"]);
        command
    }
}

/// In a chroot whose root is no mount point mounts cannot be made private: they are undone instead.
fn own_mounts() -> bool {
    let mut probe = Command::new("unshare");
    probe.args(["--mount", "true"]).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _done = Command::new("umount").arg("--lazy").arg(&self.folder).stderr(Stdio::null()).status();
    }
}
