//! A Postgres cluster of our own: started with the first test that needs it, gone with this
//! process. Postgres refuses to run as root, so root drops to the user `postgres`.

use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use sqlx::{Connection as _, Executor as _, PgConnection};

use super::disk::SmallDisk;
use super::shifted::ShiftedClock;
use super::signals::signal;

const INSTALL: &str =
    "install it: apt-get install -y postgresql; or name its folder in IDEMPOTENCY_LEDGER_TEST_PG_BIN";

/// A running cluster. Its data folder and its process end with it.
pub(crate) struct Cluster {
    folder: tempfile::TempDir,
    bin: PathBuf,
    pub(crate) port: u16,
    /// Ends the server when it closes, also if this process is killed.
    watch: Option<Child>,
    /// What the watch does at the very end.
    last: String,
    /// The file system of the tables and its size, where they have one of their own.
    disk: Option<(SmallDisk, &'static str)>,
    /// Its clock, where it is not the machine's.
    clock: Option<ShiftedClock>,
}

/// The folder with `initdb` and `postgres`.
fn bin() -> PathBuf {
    if let Ok(named) = std::env::var("IDEMPOTENCY_LEDGER_TEST_PG_BIN") {
        return PathBuf::from(named);
    }
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|folders| folders.flatten().map(|folder| folder.path().join("bin")).collect())
        .unwrap_or_default();
    versions.retain(|bin| bin.join("initdb").exists());
    versions.sort();
    if let Some(newest) = versions.pop() {
        return newest;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .find(|folder| folder.join("initdb").exists())
        .unwrap_or_else(|| panic!("no Postgres server was found; {INSTALL}"))
}

pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id");
    String::from_utf8_lossy(&id.stdout).trim() == "0"
}

/// A shell command as the user that may run Postgres.
pub(super) fn shell(script: &str) -> Command {
    let mut command;
    if is_root() {
        command = Command::new("setpriv");
        command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups", "sh", "-c", script]);
    } else {
        command = Command::new("sh");
        command.args(["-c", script]);
    }
    command.current_dir("/");
    command
}

/// The same, on a small disk, of which the shell sees itself as the user that it is.
fn shell_on(disk: &SmallDisk, size: &str, script: &str) -> Command {
    let mut command = disk.command(size);
    if is_root() {
        command.args(["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
    } else {
        let user = Command::new("id").arg("-u").output().expect("id").stdout;
        let user = String::from_utf8_lossy(&user).trim().to_owned();
        command.args(["unshare", "--user", &format!("--map-user={user}")]);
    }
    command.args(["sh", "-c", script]).current_dir("/");
    command
}

/// Runs a shell command that reads this.
pub(super) fn pour(text: &str, script: &str) {
    let mut child = shell(script).stdin(Stdio::piped()).spawn().expect("sh");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// A port of nobody else for as long as this process lives, however late and however often it is listened to. None that
/// the system gives to those who ask for any: a server that is down for a moment would find its own taken, and its clients
/// somebody else. A socket of UDP at the same port tells other processes of tests that it is taken.
pub(crate) fn free_port() -> u16 {
    static TAKEN: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    const PORTS: std::ops::Range<u32> = 20_000..32_000;
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let first = std::process::id().wrapping_mul(97);
    for number in 0..PORTS.end - PORTS.start {
        let port = PORTS.start + first.wrapping_add(number) % (PORTS.end - PORTS.start);
        let port = u16::try_from(port).expect("a port");
        let Ok(sign) = UdpSocket::bind(("127.0.0.1", port)) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            taken.push(sign);
            return port;
        }
    }
    panic!("no port of {PORTS:?} is free");
}

impl Cluster {
    /// A folder for one, with nothing in it.
    pub(super) fn empty(port: u16) -> Cluster {
        // Not below TMPDIR, which the user of Postgres might not be able to enter.
        let parent = std::env::var("IDEMPOTENCY_LEDGER_TEST_CLUSTERS").unwrap_or_else(|_| "/tmp".into());
        let folder = tempfile::Builder::new().prefix("ledger-pg-").tempdir_in(parent).expect("a folder");
        if is_root() {
            let owned = Command::new("chown").arg("postgres:postgres").arg(folder.path()).status();
            assert!(owned.is_ok_and(|status| status.success()), "the user postgres is missing; {INSTALL}");
        }
        Cluster { folder, bin: bin(), port, watch: None, last: String::new(), disk: None, clock: None }
    }

    fn make(settings: &str) -> Cluster {
        let cluster = Cluster::empty(free_port());
        let (bin, data, port) = (cluster.bin(), cluster.data(), cluster.port);
        let init = format!(
            "'{}/initdb' -D '{}' -A trust -U postgres -E UTF8 --locale=C -N",
            bin.display(),
            data.display()
        );
        let made = shell(&init).output().expect("initdb");
        assert!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
        let configuration = format!(
            "\nlisten_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\nmax_connections = 400\n\
             log_min_messages = panic\nlog_min_error_statement = panic\nshared_buffers = 64MB\n{settings}\n"
        );
        pour(&configuration, &format!("cat >> '{}/postgresql.conf'", data.display()));
        cluster
    }

    /// Makes and starts a cluster; `settings` are lines of its configuration.
    pub(crate) fn start(settings: &str) -> Cluster {
        let mut cluster = Cluster::make(settings);
        cluster.run();
        cluster
    }

    /// A cluster whose tables have a file system of this size.
    pub(crate) fn start_on_a_small_disk(size: &'static str) -> Cluster {
        let mut cluster = Cluster::make("");
        cluster.disk = Some((SmallDisk::new(&cluster.data().join("base")), size));
        cluster.run();
        cluster
    }

    /// A cluster whose clock can be set.
    pub(crate) fn start_with_a_clock(settings: &str) -> Cluster {
        let mut cluster = Cluster::make(settings);
        cluster.gets_a_clock();
        cluster.run();
        cluster
    }

    /// From its next start on its clock can be set.
    pub(crate) fn gets_a_clock(&mut self) {
        self.clock = Some(ShiftedClock::new());
    }

    /// Its clock is ahead of the machine's by so many microseconds from now on.
    pub(crate) fn set_clock(&self, ahead: i64) {
        self.clock.as_ref().expect("a cluster with a clock").set(ahead);
    }

    /// A cluster that nobody drops: its watch removes its folder.
    fn for_good(settings: &str) -> Cluster {
        let mut cluster = Cluster::make(settings);
        cluster.last = format!("; rm -rf '{}'", cluster.folder.path().display());
        cluster.run();
        cluster
    }

    pub(crate) fn bin(&self) -> &Path {
        &self.bin
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts the server, and waits until it answers.
    pub(crate) fn run(&mut self) {
        let clock = self.clock.as_ref().map_or_else(String::new, ShiftedClock::before_command);
        let script = format!(
            "{clock} '{0}/postgres' -D '{1}' >'{1}/log' 2>&1 & server=$!; cat >/dev/null; kill -QUIT $server 2>/dev/null; wait $server{2}",
            self.bin.display(),
            self.data().display(),
            self.last
        );
        let mut command = match &self.disk {
            Some((disk, size)) => shell_on(disk, size, &script),
            None => shell(&script),
        };
        self.watch = Some(command.stdin(Stdio::piped()).spawn().expect("postgres"));
        // A connection, not a mere port: a server that is starting up listens already. On a thread of
        // its own, since the caller may be within a runtime.
        let url = self.url("postgres");
        let up = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for _ in 0..600 {
                    if let Ok(connection) = PgConnection::connect(&url).await {
                        return connection.close().await.is_ok();
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                false
            })
        });
        if up.join().unwrap() {
            return;
        }
        let log = std::fs::read_to_string(self.data().join("log")).unwrap_or_default();
        panic!("Postgres did not start: {log}");
    }

    /// Ends the server as a crash would.
    pub(crate) fn crash(&mut self) {
        if let Some(mut watch) = self.watch.take() {
            drop(watch.stdin.take());
            let _ended = watch.wait();
        }
    }

    /// Starts it again with 300 numbers left for transactions, and none that could be used again: a replication slot, for
    /// which it must log enough, is as old as the database.
    pub(crate) fn nears_wraparound(&mut self) {
        let (bin, data, port) =
            (self.bin.display().to_string(), self.data().display().to_string(), self.port);
        let script = format!(
            "set -e; run() {{ '{bin}/psql' -X -q -A -t -h 127.0.0.1 -p {port} -U postgres postgres; }}
             echo \"CREATE TABLE held (one int); SELECT pg_create_logical_replication_slot('held', 'pgoutput')\" | run >/dev/null
             next=$(($(echo 'SELECT catalog_xmin FROM pg_replication_slots' | run) + 2144483347))
             '{bin}/pg_ctl' -D '{data}' -m fast -w stop >/dev/null
             '{bin}/pg_resetwal' -f -x $next -D '{data}' >/dev/null
             segment=$(printf %04X $((next / 1048576)))
             dd if=/dev/zero of='{data}/pg_xact/'$segment bs=256k count=1 2>/dev/null"
        );
        assert!(shell(&script).status().expect("sh").success(), "the numbers cannot be used up");
        self.crash();
        self.run();
    }

    /// Uses up the numbers that are left for transactions; each block with an exception takes one.
    pub(crate) async fn wraps_around(&self) {
        let mut connection = self.connect("postgres").await;
        let burn = "DO $$ BEGIN FOR i IN 1..1000 LOOP
                    BEGIN INSERT INTO held VALUES (i); EXCEPTION WHEN division_by_zero THEN NULL; END;
                    END LOOP; END $$";
        let refused = connection.execute(burn).await.expect_err("numbers are left");
        assert!(refused.to_string().contains("wraparound"), "{refused}");
    }

    /// The server and all its children.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let file = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        let server: u32 = file.lines().next().unwrap().trim().parse().unwrap();
        let parent = format!("PPid:\t{server}\n");
        let child = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|text| text.contains(&parent))
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|one| one.file_name().to_str()?.parse().ok());
        std::iter::once(server).chain(pids.filter(child)).collect()
    }

    /// Has all its processes stand still, and gives them back. The server is the first: a session that it began while
    /// the others were looked for would go on.
    pub(crate) fn pause(&self) -> Vec<u32> {
        signal("STOP", &self.pids()[..1]);
        let pids = self.pids();
        signal("STOP", &pids);
        pids
    }

    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// Writes a file of its data folder, which nobody else may read.
    pub(crate) fn write(&self, name: &str, text: &str) {
        pour(text, &format!("umask 077; cat > '{}/{name}'", self.data().display()));
    }

    /// Who may connect, beside the superuser; in force when this returns.
    pub(crate) async fn admit(&self, rules: &str) {
        self.write("pg_hba.conf", &format!("host all postgres 127.0.0.1/32 trust\n{rules}\n"));
        self.reload().await;
    }

    /// Has the server read its files again; it has done so when this returns.
    pub(crate) async fn reload(&self) {
        let read_at = async || {
            let mut connection = self.connect("postgres").await;
            let at: String = sqlx::query_scalar("SELECT pg_conf_load_time()::text")
                .fetch_one(&mut connection)
                .await
                .unwrap();
            connection.close().await.unwrap();
            at
        };
        let before = read_at().await;
        self.execute("postgres", "SELECT pg_reload_conf()").await;
        while read_at().await == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Runs a statement on a database.
    pub(crate) async fn execute(&self, database: &str, statement: &str) {
        let mut connection = self.connect(database).await;
        connection.execute(sqlx::AssertSqlSafe(statement.to_owned())).await.unwrap();
        connection.close().await.unwrap();
    }

    pub(crate) async fn connect(&self, database: &str) -> PgConnection {
        let mut last = None;
        for _ in 0..100 {
            match PgConnection::connect(&self.url(database)).await {
                Ok(connection) => return connection,
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("no connection to {database}: {last:?}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.crash();
    }
}

/// The cluster that the suites share. Crash safety is off: nothing here crashes.
pub(crate) fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| Cluster::for_good("fsync = off\nfull_page_writes = off"))
}

/// A database of the shared cluster, migrated, whose clock tests can set.
pub(crate) async fn database() -> String {
    static TEMPLATE: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let cluster = tokio::task::spawn_blocking(shared).await.unwrap();
    TEMPLATE.get_or_init(|| make_template(cluster)).await;
    let name = format!("t{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    cluster.execute("postgres", &format!("CREATE DATABASE {name} TEMPLATE template_ledger")).await;
    name
}

async fn make_template(cluster: &Cluster) {
    cluster.execute("postgres", "CREATE DATABASE template_ledger").await;
    super::server::migrate_postgres(&cluster.url("template_ledger")).await;
    make_clock(cluster, "template_ledger").await;
}

/// Puts a clock that tests can set in the place of a database's own.
pub(crate) async fn make_clock(cluster: &Cluster, database: &str) {
    cluster
        .execute(
            database,
            "CREATE TABLE ledger.test_clock (ahead bigint NOT NULL, fixed bigint);
             INSERT INTO ledger.test_clock VALUES (0, NULL);
             CREATE OR REPLACE FUNCTION ledger.clock() RETURNS bigint LANGUAGE sql VOLATILE AS
             $$ SELECT coalesce(fixed, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + ahead
                FROM ledger.test_clock $$",
        )
        .await;
}

/// Until a session waits for a lock.
pub(crate) async fn somebody_waits(database: &str) {
    let mut watch = shared().connect(database).await;
    let waits = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let waiting =
        async { while sqlx::query_scalar::<_, i64>(waits).fetch_one(&mut watch).await.unwrap() == 0 {} };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("somebody waits for the row");
}
