//! A real PgBouncer before a cluster.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use sqlx::{Connection as _, PgConnection};

use super::postgres::{Cluster, free_port, shell};

/// A running PgBouncer. Its process ends with it.
pub(crate) struct PgBouncer {
    port: u16,
    command: String,
    running: Option<Child>,
}

impl PgBouncer {
    /// Starts one of this mode, `session` or `transaction`.
    pub(crate) async fn before(cluster: &Cluster, mode: &str) -> PgBouncer {
        let port = free_port();
        // As docs/postgres.md says; and whoever the cluster admits is admitted.
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\ndefault_pool_size = 40\n\
             ignore_startup_parameters = extra_float_digits\nserver_login_retry = 1\n",
            cluster.port
        );
        cluster.write("pgbouncer.ini", &settings);
        let file = cluster.data().join("pgbouncer.ini");
        let command = format!("PATH=$PATH:/usr/sbin; exec pgbouncer -q '{}'", file.display());
        let mut bouncer = PgBouncer { port, command, running: None };
        bouncer.run().await;
        bouncer
    }

    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// Starts it, and waits until it passes a connection on.
    pub(crate) async fn run(&mut self) {
        let running = shell(&self.command).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.running = Some(running.expect("sh"));
        let until = Instant::now() + Duration::from_secs(30);
        while PgConnection::connect(&self.url("postgres")).await.is_err() {
            let ended = self.running.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "PgBouncer has ended: is it installed? apt-get install -y pgbouncer");
            assert!(Instant::now() < until, "PgBouncer passes no connection on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _gone = running.kill();
            let _status = running.wait();
        }
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.kill();
    }
}
