//! A Postgres that follows another one, is promoted, or is restored from a copy and the log that was kept beside it.

use std::path::{Path, PathBuf};

use super::postgres::{Cluster, pour, shell};
use super::signals::signal;

/// Settings of a server that keeps its whole log.
pub(crate) const KEEPS_ITS_LOG: &str =
    "archive_mode = on\narchive_command = 'mkdir -p ../archive && cp %p ../archive/%f'";

impl Cluster {
    /// A hot standby, on this port, which a dead server may have had before. `settings` are lines of its configuration.
    pub(crate) fn standby_of(primary: &Cluster, port: u16, settings: &str) -> Cluster {
        let mut standby = Cluster::copy_of(primary, port, "-R", settings);
        standby.run();
        standby
    }

    /// A base backup. It does not run yet.
    pub(crate) fn copy_of(primary: &Cluster, port: u16, options: &str, settings: &str) -> Cluster {
        let copy = Cluster::empty(port);
        let script = format!(
            "'{}/pg_basebackup' -D '{}' -X stream -c fast --no-sync {options} \
             -d 'host=127.0.0.1 port={} user=postgres application_name=standby'",
            copy.bin().display(),
            copy.data().display(),
            primary.port
        );
        let made = shell(&script).output().expect("pg_basebackup");
        assert!(made.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&made.stderr));
        // The last file that is read: it decides.
        let lines = format!("port = {port}\n{settings}\n");
        pour(&lines, &format!("cat >> '{}/postgresql.auto.conf'", copy.data().display()));
        copy
    }

    /// From now on this copy, once it runs, replays the log that is kept in this folder, up to a place of it.
    pub(crate) fn recovers(&self, archive: &Path, until: &str) {
        let lines = format!(
            "restore_command = 'cp \"{}/%f\" \"%p\"'\nrecovery_target_lsn = '{until}'\n\
             recovery_target_action = 'promote'\n",
            archive.display()
        );
        pour(&lines, &format!("cat >> '{}/postgresql.auto.conf'", self.data().display()));
        pour("", &format!("cat > '{}/recovery.signal'", self.data().display()));
    }

    /// SIGKILL, to the server and all its children at once. Nothing of it runs when this returns.
    pub(crate) fn kill(&mut self) {
        let pids = self.pids();
        signal("KILL", &pids);
        // Those that were born meanwhile see that their parent is gone.
        self.crash();
        // One that nobody has waited for is a zombie.
        let runs = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/status"))
                .is_ok_and(|text| !text.contains("State:\tZ"))
        };
        while pids.iter().any(runs) {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Where this one keeps its log for good, by `KEEPS_ITS_LOG`.
    pub(crate) fn archive(&self) -> PathBuf {
        self.data().with_file_name("archive")
    }

    /// A standby takes writes from now on.
    pub(crate) async fn promote(&self) {
        self.execute("postgres", "SELECT pg_promote(true, 60)").await;
    }
}
