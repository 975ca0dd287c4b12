//! Named points at which the process kills itself, for tests of what a crash leaves behind.
//! Only with the feature `crash-points`.
//!
//! `IDEMPOTENCY_LEDGER_CRASH_AT=after_commit:17` crashes at the 17th pass of that point.

/// The variable that names the point.
pub(crate) const VARIABLE: &str = "IDEMPOTENCY_LEDGER_CRASH_AT";

#[cfg(feature = "crash-points")]
mod points {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static ARMED: OnceLock<Option<(String, AtomicU64)>> = OnceLock::new();

    fn armed() -> Option<&'static (String, AtomicU64)> {
        let arm = || {
            let text = std::env::var(super::VARIABLE).ok()?;
            let (name, passes) = text.split_once(':')?;
            Some((name.to_owned(), AtomicU64::new(passes.parse().ok()?)))
        };
        ARMED.get_or_init(arm).as_ref()
    }

    fn reached(name: &str) -> bool {
        armed().is_some_and(|(wanted, left)| wanted == name && left.fetch_sub(1, Ordering::SeqCst) == 1)
    }

    /// Runs no destructor, and flushes nothing.
    pub(crate) fn point(name: &str) {
        if reached(name) {
            std::process::abort();
        }
    }

    /// Crashes a moment later, during whatever follows.
    pub(crate) fn point_soon(name: &str) {
        if reached(name) {
            std::thread::spawn(|| {
                std::thread::sleep(std::time::Duration::from_micros(400));
                std::process::abort();
            });
        }
    }
}

#[cfg(not(feature = "crash-points"))]
mod points {
    #[inline]
    pub(crate) fn point(_: &str) {}

    #[inline]
    pub(crate) fn point_soon(_: &str) {}
}

pub(crate) use points::point;

/// A statement with the crash points around it.
pub(crate) async fn around<T>(statement: impl Future<Output = T>) -> T {
    point("before_send");
    points::point_soon("after_send");
    let done = statement.await;
    point("after_commit");
    done
}
