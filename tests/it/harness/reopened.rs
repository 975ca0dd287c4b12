//! A file that another store of this process has had.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use idempotency_ledger::store::{Clock, SqliteStore};

/// Opens the file once the last task of the store before has ended.
pub(super) async fn sqlite_after_another(path: &Path, clock: Arc<dyn Clock>) -> SqliteStore {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match SqliteStore::new(path, clock.clone()) {
            Ok(store) => return store,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::task::yield_now().await;
    }
}
