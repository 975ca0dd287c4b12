//! The primary is killed, and a standby promoted, again and again, under load. With a synchronous standby nothing that
//! was acknowledged is lost. With an asynchronous one, and after a restore from a backup, it is: the servers say so, and
//! every history is explained by that loss and nothing else.

use std::time::{Duration, Instant};

use super::operator;
use super::scene::{Live, Shape};
use super::world::{micros, now};
use crate::harness::postgres::{Cluster, free_port};
use crate::harness::signals::signal;
use crate::harness::standby::KEEPS_ITS_LOG;
use crate::proof::history::{Call, Event, Loss, Outcome, Shift};
use crate::proof::run::Run;

/// Within this a failover is over, on a slow machine too; what it took is told, and judged where the suite is alone.
const WITHIN: Duration = Duration::from_secs(60);
const OUTAGE_MAX: Duration = Duration::from_secs(10);
const SETTINGS: &str = "fsync = off\nwal_keep_size = 512MB";
const ALONE: &str = "synchronous_standby_names = ''";
const LOSSES: &str = "idempotency_ledger_store_losses_total";
const LOGGED: &str = "the database has lost commits that it had acknowledged";
const ALERTS: &str = "idempotency_ledger_alerts_total";
/// The clock of the machine that a backup is restored on.
const LATE: Duration = Duration::from_mins(10);

/// One at a time: the machine is small.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A primary and its standby; the primary is the cluster of the run.
struct Pair {
    live: Live,
    standby: Cluster,
    synchronous: bool,
}

impl Pair {
    async fn start(run: Run, synchronous: bool) -> Pair {
        let primary = blocking(|| Cluster::start(SETTINGS));
        let standby = blocking(|| Cluster::standby_of(&primary, free_port(), ALONE));
        let url = format!(
            "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres?sslmode=disable&target_session_attrs=read-write",
            primary.port, standby.port
        );
        let live = Live::over(run, primary, &url, Shape::observed(16)).await;
        let pair = Pair { live, standby, synchronous };
        pair.follows().await;
        pair.live.grants_again(WITHIN).await;
        pair
    }

    /// The standby has all that was committed, and if it is a synchronous one, from now on no commit ends without it.
    async fn follows(&self) {
        let primary = &self.live.cluster;
        if self.synchronous {
            primary.execute("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'").await;
            primary.reload().await;
        }
        let mut watch = primary.connect("postgres").await;
        let is = |state: &str| format!("SELECT count(*) = 1 FROM pg_stat_replication WHERE {state}");
        let place = "SELECT pg_current_wal_lsn()::text";
        let mut states = vec!["state = 'streaming'".to_owned()];
        if self.synchronous {
            // A statement that began under the old settings may end by them.
            states.push("sync_state = 'sync' AND NOT EXISTS (SELECT 1 FROM pg_stat_activity a WHERE \
                a.backend_type = 'client backend' AND a.xact_start < pg_conf_load_time() AND a.pid <> pg_backend_pid())".into());
        }
        for state in states {
            self.becomes(&mut watch, &is(&state)).await;
        }
        let lsn: String = sqlx::query_scalar(place).fetch_one(&mut watch).await.unwrap();
        self.becomes(&mut watch, &is(&format!("replay_lsn >= '{lsn}'"))).await;
    }

    async fn becomes(&self, watch: &mut sqlx::PgConnection, true_of: &str) {
        let since = Instant::now();
        while !sqlx::query_scalar::<_, bool>(sqlx::AssertSqlSafe(true_of))
            .fetch_one(&mut *watch)
            .await
            .unwrap()
        {
            if since.elapsed() > WITHIN {
                self.live.run.fail(format!("not within {WITHIN:?}: {true_of}"), &[]);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The primary dies, its standby takes over, and gets a standby of its own. From when to when nothing was granted
    /// on some replica.
    async fn fails_over(&mut self) -> Duration {
        let died = Instant::now();
        blocking(|| self.live.cluster.kill());
        // Before the other one takes writes, which it does a while before it says so.
        if let Some(loss) = self.live.world.losses.lock().unwrap().last_mut() {
            loss.until = now();
        }
        self.standby.promote().await;
        std::mem::swap(&mut self.live.cluster, &mut self.standby);
        self.live.grants_again(WITHIN).await;
        let outage = died.elapsed();
        let port = self.standby.port;
        self.standby = blocking(|| Cluster::standby_of(&self.live.cluster, port, ALONE));
        self.follows().await;
        outage
    }
}

/// Outages, for people; in a large run none is longer than promised.
fn told(run: &Run, outages: &[Duration]) -> String {
    let mut sorted = outages.to_vec();
    sorted.sort_unstable();
    let longest = *sorted.last().unwrap();
    if longest > OUTAGE_MAX && std::env::var_os("LEDGER_PROOF_SIZE").is_some() {
        run.fail(format!("an outage of {longest:?}"), &[]);
    }
    let millis = |duration: Duration| duration.as_millis();
    format!("median and longest outage {} ms and {} ms", millis(sorted[sorted.len() / 2]), millis(longest))
}

fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// How often each replica has said that commits were lost: by its metric, and in its log.
async fn said(live: &Live) -> Vec<(u64, usize)> {
    let mut all = Vec::new();
    for replica in &live.replicas {
        let logged = replica.log().lines().filter(|line| line.contains(LOGGED)).count();
        all.push((replica.metric(LOSSES, "").await as u64, logged));
    }
    all
}

async fn alerts(live: &Live) -> String {
    let mut all = Vec::new();
    for reason in ["TOKEN_FROM_FUTURE", "ENTRY_NOT_FOUND", "LEASE_LOST"] {
        let mut sum = 0.0;
        for replica in &live.replicas {
            sum += replica.metric(ALERTS, reason).await;
        }
        all.push(format!("{sum} {reason}"));
    }
    all.join(", ")
}

/// Changes that were acknowledged between two instants, by replica.
fn acknowledged(live: &Live, from: i64, to: i64) -> Vec<u64> {
    let changes = |event: &Event| match (event.call, event.outcome) {
        (Call::Claim { .. }, Outcome::Acquired { replayed, .. }) => !replayed,
        (_, Outcome::Settled { replayed, .. }) => !replayed,
        _ => false,
    };
    let mut all = vec![0; live.replicas.len()];
    for key in live.world.keys() {
        let events = key.events.lock().unwrap();
        for event in
            events.iter().filter(|event| event.invoked > from && event.returned < to && changes(event))
        {
            all[event.replica] += 1;
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synchronous_standby_loses_nothing() {
    let _turn = TURN.lock().await;
    let mut pair = Pair::start(Run::new("failover", 2), true).await;
    let mut outages = Vec::new();
    for number in 0..pair.live.run.size {
        tokio::time::sleep(Duration::from_millis(300 + pair.live.random.below(1_200))).await;
        outages.push(pair.fails_over().await);
        pair.live.run.progress(number + 1, "failovers");
    }
    let said = said(&pair.live).await;
    if said.iter().any(|(counted, logged)| *counted > 0 || *logged > 0) {
        pair.live.run.fail(format!("nothing was lost, and a loss was announced: {said:?}"), &[]);
    }
    let alerts = alerts(&pair.live).await;
    let told = told(&pair.live.run, &outages);
    pair.live
        .end(format!("{} failovers to a synchronous standby, {told}; alerts: {alerts}", outages.len()))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_asynchronous_standby_loses_is_announced() {
    let _turn = TURN.lock().await;
    let mut pair = Pair::start(Run::new("failover-asynchronous", 2), false).await;
    let (mut outages, mut lost, mut by) = (Vec::new(), 0, Vec::new());
    // Two of five: it takes less than the other one to see what there is.
    for number in 0..(pair.live.run.size * 2).div_ceil(5) {
        tokio::time::sleep(Duration::from_millis(300 + pair.live.random.below(1_200))).await;
        let before = said(&pair.live).await;
        let stopped = pair.stop_the_log().await;
        let for_so_long = 100 + pair.live.random.below(1_100);
        tokio::time::sleep(Duration::from_millis(for_so_long)).await;
        // Each server has something to lose.
        pair.live.grants_again(WITHIN).await;
        let dies = now();
        outages.push(pair.fails_over().await);
        let gone = acknowledged(&pair.live, stopped, dies);
        lost += gone.iter().sum::<u64>();
        by.push(pair.live.announced(&before, &gone).await);
        pair.live.run.progress(number + 1, "failovers");
    }
    let alerts = alerts(&pair.live).await;
    let told = told(&pair.live.run, &outages);
    let harm = format!(
        "{} failovers to an asynchronous standby, {told}; {lost} acknowledged changes lost, announced by {by:?} of 3 \
         servers at once; alerts: {alerts}",
        outages.len()
    );
    pair.live.end(harm).await;
}

impl Pair {
    /// From the instant that it returns on nothing that is committed gets to the standby.
    async fn stop_the_log(&self) -> i64 {
        let mut watch = self.live.cluster.connect("postgres").await;
        // Whatever was answered until this instant gets there, however far the standby is behind.
        let from = now();
        let lsn = sqlx::query_scalar("SELECT pg_current_wal_lsn()::text");
        let lsn: String = lsn.fetch_one(&mut watch).await.unwrap();
        let there = format!("SELECT count(*) = 1 FROM pg_stat_replication WHERE flush_lsn >= '{lsn}'");
        self.becomes(&mut watch, &there).await;
        self.live.world.losses.lock().unwrap().push(Loss { from, until: i64::MAX - 1 });
        let sender = sqlx::query_scalar::<_, i32>("SELECT pid FROM pg_stat_replication");
        let sender = sender.fetch_one(&mut watch).await.unwrap();
        signal("STOP", &[sender.unsigned_abs()]);
        now()
    }
}

impl Live {
    /// Of the servers that had acknowledged what was lost: how many say so, each by metric and log. One does at least.
    async fn announced(&self, before: &[(u64, usize)], gone: &[u64]) -> usize {
        let since = Instant::now();
        loop {
            let now = said(self).await;
            let more = now.iter().zip(before).map(|(now, before)| now.0 > before.0 && now.1 > before.1);
            let of_those = more.zip(gone).filter(|(more, gone)| *more && **gone > 0).count();
            let all = gone.iter().filter(|gone| **gone > 0).count();
            if of_those == all || of_those > 0 && since.elapsed() > Duration::from_secs(3) {
                return of_those;
            }
            if since.elapsed() > WITHIN {
                self.run.fail(format!("{gone:?} changes were lost, and no server says so: {now:?}"), &[]);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A base backup and the log that was kept, replayed up to a place, on a machine whose clock is late. As the recipe says:
/// no server runs meanwhile, and the offset of tokens is raised by more than what was lost took.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_under_load_is_explained_by_what_it_lost() {
    let _turn = TURN.lock().await;
    let cluster = blocking(|| Cluster::start(&format!("{SETTINGS}\n{KEEPS_ITS_LOG}")));
    let (port, url) = (cluster.port, cluster.url("postgres"));
    let mut live = Live::over(Run::new("failover-restore", 1), cluster, &url, Shape::observed(16)).await;
    live.grants_again(WITHIN).await;
    let mut restored = blocking(|| Cluster::copy_of(&live.cluster, port, "", "archive_mode = off"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut watch = live.cluster.connect("postgres").await;
    let mut ask = async |what: &'static str| -> String {
        sqlx::query_scalar(what).fetch_one(&mut watch).await.unwrap()
    };
    let from = now();
    let place = ask("SELECT pg_current_wal_lsn()::text").await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let file = ask("SELECT pg_walfile_name(pg_switch_wal())").await;
    while ask("SELECT coalesce((SELECT last_archived_wal FROM pg_stat_archiver), '')").await < file {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let dies = now();
    let lost: u64 = acknowledged(&live, from, dies).iter().sum();
    drop(watch);
    blocking(|| live.cluster.kill());
    for replica in &mut live.replicas {
        replica.kill();
    }
    let until = now();
    live.world.losses.lock().unwrap().push(Loss { from, until });
    live.world.shifts.lock().unwrap().push(Shift { invoked: until, returned: until, ahead: -micros(LATE) });
    restored.gets_a_clock();
    restored.set_clock(-micros(LATE));
    restored.recovers(&live.cluster.archive(), &place);
    blocking(|| restored.run());
    let mut watch = restored.connect("postgres").await;
    while sqlx::query_scalar("SELECT pg_is_in_recovery()").fetch_one(&mut watch).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let lost_database = std::mem::replace(&mut live.cluster, restored);
    for replica in &mut live.replicas {
        replica.start(None);
    }
    for replica in &live.replicas {
        replica.listens().await;
        replica.serves(WITHIN).await;
    }
    drop(lost_database);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let refused = live.world.counts.lock().unwrap().get("refused STORE_CLOCK_BEHIND").copied().unwrap_or(0);
    if refused == 0 {
        live.run.fail("the clock is ten minutes late, and nobody was refused", &[]);
    }
    let lost_time = Duration::from_micros((until - from).unsigned_abs());
    operator::raise_by_rpc(&live.world, 0, lost_time + Duration::from_secs(2)).await;
    live.grants_again(WITHIN).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // Claims that were granted by the clock before come to their ends.
    let caught_up = now();
    live.cluster.set_clock(0);
    live.world.shifts.lock().unwrap().push(Shift { invoked: caught_up, returned: now(), ahead: 0 });
    let alerts = alerts(&live).await;
    live.end(format!("a restore; {lost} acknowledged changes lost; alerts: {alerts}")).await;
}
