//! Logical replication of a ledger to another database of the same cluster, by the statements of a page.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{Executor as _, Row as _};

use super::migrate;
use crate::docs::read;
use crate::harness::postgres::Cluster;

/// Maximum time for the first copy, and for what was written last to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

/// The statement of the page that begins so.
pub(super) fn documented(page: &str, begins: &str) -> String {
    let text = read(page);
    let from = text.find(begins).unwrap_or_else(|| panic!("{page} has no {begins:?}"));
    text[from..].split_once(';').unwrap().0.to_owned()
}

pub(super) async fn cluster() -> Cluster {
    tokio::task::spawn_blocking(|| Cluster::start("wal_level = logical\nfsync = off")).await.unwrap()
}

/// A subscription of the second database to a publication of the first one.
pub(super) struct Subscription {
    pub(super) from: PgConnection,
    pub(super) to: PgConnection,
}

impl Subscription {
    /// Makes both ledgers; the second one has no `meta` of its own.
    pub(super) async fn between(cluster: &Cluster, from: &str, to: &str) -> Subscription {
        for name in [from, to] {
            cluster.execute("postgres", &format!("CREATE DATABASE {name}")).await;
            migrate(&cluster.url(name));
        }
        let mut made = Subscription { from: cluster.connect(from).await, to: cluster.connect(to).await };
        made.to
            .execute(sqlx::AssertSqlSafe(documented("docs/postgres.md", "DELETE FROM ledger.meta")))
            .await
            .unwrap();
        made
    }

    /// Subscribes, and waits for the first copy of all tables.
    pub(super) async fn begin(&mut self, cluster: &Cluster, from: &str, publication: &str) {
        // Both databases are of one cluster: `CREATE SUBSCRIPTION` would wait for itself if it made the slot.
        let slot = "SELECT pg_create_logical_replication_slot('copy', 'pgoutput')";
        self.from.execute(slot).await.unwrap();
        let subscribe = format!(
            "CREATE SUBSCRIPTION copy CONNECTION 'host=127.0.0.1 port={} user=postgres dbname={from}'
             PUBLICATION {publication} WITH (create_slot = false, slot_name = 'copy')",
            cluster.port
        );
        self.to.execute(sqlx::AssertSqlSafe(subscribe)).await.unwrap();
        let copied = "SELECT coalesce(bool_and(srsubstate = 'r'), false) FROM pg_subscription_rel";
        until(&mut self.to, copied).await;
    }

    /// Asks whether all that the first database has written by now has arrived.
    async fn arrived(&mut self) -> String {
        let last: String = self.from.fetch_one("SELECT pg_current_wal_lsn()::text").await.unwrap().get(0);
        format!(
            "SELECT coalesce(bool_and(confirmed_flush_lsn >= '{last}'::pg_lsn), false) FROM pg_replication_slots
             WHERE slot_name = 'copy'"
        )
    }

    pub(super) async fn has_arrived(&mut self) -> bool {
        let arrived = self.arrived().await;
        self.from.fetch_one(sqlx::AssertSqlSafe(arrived)).await.unwrap().get(0)
    }

    /// Waits until all that the first database has written by now has arrived.
    pub(super) async fn caught_up(&mut self) {
        let arrived = self.arrived().await;
        until(&mut self.from, &arrived).await;
    }

    /// Ends the subscription: the second database stands by itself.
    pub(super) async fn end(mut self) -> (PgConnection, PgConnection) {
        self.to.execute("ALTER SUBSCRIPTION copy DISABLE").await.unwrap();
        self.to.execute("ALTER SUBSCRIPTION copy SET (slot_name = NONE)").await.unwrap();
        self.to.execute("DROP SUBSCRIPTION copy").await.unwrap();
        // The walsender of the disabled subscription may still hold the slot.
        let free = "SELECT NOT active FROM pg_replication_slots WHERE slot_name = 'copy'";
        until(&mut self.from, free).await;
        self.from.execute("SELECT pg_drop_replication_slot('copy')").await.unwrap();
        (self.from, self.to)
    }
}

/// Waits until the answer is yes.
async fn until(connection: &mut PgConnection, statement: &str) {
    let asks = async {
        while !connection
            .fetch_one(sqlx::AssertSqlSafe(statement.to_owned()))
            .await
            .unwrap()
            .get::<bool, _>(0)
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(ARRIVES_WITHIN, asks)
        .await
        .unwrap_or_else(|_| panic!("not so after {ARRIVES_WITHIN:?}: {statement}"));
}
