//! What the suites stand on: a real Postgres, servers with a clock that tests can set, clients.

mod behind;
pub(crate) mod cutter;
pub(crate) mod details;
pub(crate) mod disk;
pub(crate) mod dynamic;
pub(crate) mod faulty;
mod judged;
pub(crate) mod log_file;
pub(crate) mod log_reader;
mod must_stop;
pub(crate) mod pgbouncer;
pub(crate) mod pki;
pub(crate) mod pooler;
pub(crate) mod postgres;
pub(crate) mod random;
pub(crate) mod raw;
mod reopened;
mod scraped;
pub(crate) mod server;
mod setup;
mod shifted;
pub(crate) mod signals;
pub(crate) mod standby;
pub(crate) mod switch;
pub(crate) mod timer;

/// Stamps each case once per store, so that a failure is named singly.
macro_rules! on_both_stores {
    ($($case:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case($crate::harness::server::Kind::Sqlite).await })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case($crate::harness::server::Kind::Postgres).await })*
        }
    };
}
pub(crate) use on_both_stores;

/// Stamps each case for both stores, and for Postgres behind a pooler of transactions.
macro_rules! on_all_stores {
    ($($case:ident),* $(,)?) => {
        $crate::harness::on_both_stores!($($case),*);
        mod pooled {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case($crate::harness::server::Kind::Pooled).await })*
        }
    };
}
pub(crate) use on_all_stores;
