//! Stores whose clocks are judged like those of machines, though tests set them.

use std::sync::Arc;

use idempotency_ledger::domain::{ClockLimits, StoreTime};
use idempotency_ledger::store::{CLOCK_LIMITS, Clock, PostgresOptions, PostgresSource, PostgresStore, Store};

use super::postgres;
use super::reopened::sqlite_after_another;
use super::server::{TestClock, TestStore, options};

/// A test's clock, judged like a machine's.
struct Judged(Arc<TestClock>);

impl Clock for Judged {
    fn now(&self) -> StoreTime {
        self.0.now()
    }

    fn limits(&self) -> ClockLimits {
        CLOCK_LIMITS
    }
}

impl TestStore {
    /// The same store with a clock that is judged like a machine's.
    pub(crate) async fn judged(self) -> TestStore {
        let TestStore { store, database, clock, folder, behind } = self;
        drop(store);
        let store: Arc<dyn Store> = match &database {
            Some(database) => {
                let options = options(PostgresSource::of_url(&postgres::shared().url(database)));
                Arc::new(
                    PostgresStore::new(&PostgresOptions { clock_limits: CLOCK_LIMITS, ..options }).unwrap(),
                )
            }
            None => {
                let clock = Arc::new(Judged(clock.clone()));
                Arc::new(sqlite_after_another(&folder.path().join("ledger.db"), clock).await)
            }
        };
        TestStore { store, database, clock, folder, behind }
    }
}
