//! The instrumented store of a ledger: it counts the sessions that are opened, and the attempts that fail.

use std::sync::Arc;

use async_trait::async_trait;

use crate::metrics::Metrics;
use crate::store::{Purpose, Session, Store, StoreError};

/// See the module.
pub(super) struct InstrumentedStore {
    store: Arc<dyn Store>,
    metrics: Metrics,
}

impl InstrumentedStore {
    pub(super) fn new(store: Arc<dyn Store>, metrics: Metrics) -> InstrumentedStore {
        for purpose in Purpose::ALL {
            metrics.upkeep().may_be_opened(purpose.name());
        }
        let counted = metrics.clone();
        store.on_session_rotation(Box::new(move |purpose, done| {
            counted.upkeep().replaced(purpose.name(), done);
        }));
        InstrumentedStore { store, metrics }
    }
}

/// An attempt to open a session. If it is dropped early, it has failed.
struct Attempt<'a> {
    metrics: &'a Metrics,
    purpose: Purpose,
    done: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.metrics.upkeep().opened(self.purpose.name(), self.done);
    }
}

#[async_trait]
impl Store for InstrumentedStore {
    fn describe(&self) -> String {
        self.store.describe()
    }

    fn database(&self) -> &'static str {
        self.store.database()
    }

    fn sessions(&self) -> usize {
        self.store.sessions()
    }

    async fn open(&self, purpose: Purpose) -> Result<Box<dyn Session>, StoreError> {
        let mut attempt = Attempt { metrics: &self.metrics, purpose, done: false };
        let opened = self.store.open(purpose).await;
        attempt.done = opened.is_ok();
        opened
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        self.store.migrate().await
    }

    fn left_behind(&self) -> usize {
        self.store.left_behind()
    }

    fn losses(&self) -> u64 {
        self.store.losses()
    }

    fn withholds_grants(&self) -> bool {
        self.store.withholds_grants()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::Fault;

    /// It opens nothing: for some it refuses, and others wait.
    struct Closed;

    #[async_trait]
    impl Store for Closed {
        fn describe(&self) -> String {
            "closed".into()
        }

        fn database(&self) -> &'static str {
            "closed"
        }

        fn sessions(&self) -> usize {
            1
        }

        async fn open(&self, purpose: Purpose) -> Result<Box<dyn Session>, StoreError> {
            if purpose == Purpose::Reads {
                std::future::pending::<()>().await;
            }
            Err(StoreError::NotApplied(Fault::Unavailable("closed".into())))
        }

        async fn migrate(&self) -> Result<usize, StoreError> {
            Ok(0)
        }
    }

    #[tokio::test]
    async fn a_session_that_is_refused_or_given_up_has_failed() {
        let metrics = Metrics::new().expect("metrics");
        let store = InstrumentedStore::new(Arc::new(Closed), metrics.clone());
        for purpose in [Purpose::Purge, Purpose::Purge, Purpose::Reads] {
            let opened = tokio::time::timeout(Duration::from_millis(20), store.open(purpose)).await;
            assert!(!matches!(opened, Ok(Ok(_))), "{purpose:?}");
        }
        let text = metrics.text().expect("a text");
        for (outcome, purpose, count) in [
            ("failed", "purge", 2),
            ("failed", "reads", 1),
            ("failed", "claims", 0),
            ("ok", "purge", 0),
            ("ok", "reads", 0),
        ] {
            let line = format!(
                "idempotency_ledger_store_sessions_opened_total{{outcome=\"{outcome}\",purpose=\"{purpose}\"}} {count}\n"
            );
            assert!(text.contains(&line), "{line} is missing");
        }
    }
}
