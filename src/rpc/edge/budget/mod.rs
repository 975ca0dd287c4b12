//! The memory that requests may take. A gRPC message says its length before it comes: so many bytes are
//! taken from the connection's budget and from the server's then, or the call is refused. A call never
//! waits for bytes: calls that wait for each other's bytes would wait for ever.

mod body;
mod codec;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tonic::Status;
use tonic_types::StatusExt as _;

pub(crate) use self::body::Counted;
pub(in crate::rpc) use self::codec::{Codec, Within, within};
use super::principals::Admitted;
use crate::domain::{Reason, Rejection};
use crate::metrics::Metrics;
use crate::rpc::proto::{ERROR_DOMAIN, ErrorReason};

/// A number of bytes of which parts are in use.
#[derive(Debug)]
struct Purse {
    used: AtomicUsize,
    max: usize,
}

impl Purse {
    fn new(max: usize) -> Purse {
        Purse { used: AtomicUsize::new(0), max }
    }

    fn take(&self, bytes: usize) -> bool {
        let room = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.max);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, room).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// What the requests of all connections may take.
#[derive(Clone)]
pub(crate) struct ServerBudget {
    server: Arc<Purse>,
    connection_bytes_max: usize,
    metrics: Metrics,
}

impl ServerBudget {
    pub(crate) fn new(
        server_bytes_max: usize,
        connection_bytes_max: usize,
        metrics: Metrics,
    ) -> ServerBudget {
        ServerBudget { server: Arc::new(Purse::new(server_bytes_max)), connection_bytes_max, metrics }
    }

    /// Tells how many bytes are taken, whenever it is asked.
    pub(crate) fn taken(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let server = Arc::clone(&self.server);
        move || server.used.load(Ordering::Relaxed)
    }

    /// The budget of one more connection.
    pub(crate) fn connection(&self) -> Budget {
        let connection = Purse::new(self.connection_bytes_max);
        Budget(Arc::new(Purses {
            server: Arc::clone(&self.server),
            connection,
            metrics: self.metrics.clone(),
        }))
    }
}

/// What the requests of one connection may take.
#[derive(Clone)]
pub(crate) struct Budget(Arc<Purses>);

struct Purses {
    server: Arc<Purse>,
    connection: Purse,
    metrics: Metrics,
}

impl Budget {
    /// Counts what the edge refused.
    pub(super) fn refused(&self, rejection: &Rejection) {
        self.0.metrics.refused(rejection);
    }

    /// A call, which has taken nothing yet; what it takes counts for its principal too, where that is limited.
    pub(super) fn call(&self, admitted: Option<Admitted>) -> Arc<Call> {
        Arc::new(Call { budget: self.clone(), taken: AtomicUsize::new(0), admitted })
    }
}

/// What one call has taken; it goes back when the call ends.
pub(crate) struct Call {
    budget: Budget,
    taken: AtomicUsize,
    admitted: Option<Admitted>,
}

impl Call {
    /// Whether its principal is limited.
    pub(super) fn is_limited(&self) -> bool {
        self.admitted.is_some()
    }

    /// One more item of a batch.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`: its principal has used up what a second brings.
    pub(super) fn item(&self) -> Result<(), Rejection> {
        self.admitted.as_ref().map_or(Ok(()), Admitted::item)
    }

    /// # Errors
    /// `OVERLOADED`: there is no room for so many bytes now. `QUOTA_EXCEEDED`: its principal has none.
    fn take(&self, bytes: usize) -> Result<(), Rejection> {
        let Purses { server, connection, .. } = &*self.budget.0;
        let counted = |rejection| {
            self.budget.refused(&rejection);
            Err(rejection)
        };
        if !connection.take(bytes) {
            return counted(refused("this connection", "connection_bytes_max", connection.max));
        }
        if !server.take(bytes) {
            connection.give_back(bytes);
            return counted(refused("this server", "server_bytes_max", server.max));
        }
        if let Some(Err(rejection)) = self.admitted.as_ref().map(|admitted| admitted.take_bytes(bytes)) {
            connection.give_back(bytes);
            server.give_back(bytes);
            return counted(rejection);
        }
        self.taken.fetch_add(bytes, Ordering::SeqCst);
        Ok(())
    }

    /// Takes what is missing to so many bytes.
    fn take_up_to(&self, bytes: usize) -> Result<(), Rejection> {
        match bytes.checked_sub(self.taken.load(Ordering::SeqCst)) {
            None | Some(0) => Ok(()),
            Some(missing) => self.take(missing),
        }
    }

    fn give_back(&self) {
        let taken = self.taken.swap(0, Ordering::SeqCst);
        let Purses { server, connection, .. } = &*self.budget.0;
        connection.give_back(taken);
        server.give_back(taken);
        if let Some(admitted) = &self.admitted {
            admitted.give_back_bytes(taken);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.give_back();
    }
}

fn refused(whose: &str, setting: &str, max: usize) -> Rejection {
    Rejection::new(
        Reason::Overloaded,
        format!(
            "the requests under way of {whose} would take more than {max} bytes ({setting}); nothing was changed: try \
             again later, with fewer or smaller ones at once"
        ),
    )
}

/// What this module said of a request, which a stream of messages finds where it reads them.
pub(super) fn refusal(status: &Status) -> Option<Rejection> {
    let info = status.get_details_error_info().filter(|info| info.domain == ERROR_DOMAIN)?;
    let said = ErrorReason::from_word(&info.reason)?;
    let own = [
        (ErrorReason::Overloaded, Reason::Overloaded),
        (ErrorReason::QuotaExceeded, Reason::QuotaExceeded),
        (ErrorReason::TooManyItems, Reason::TooManyItems),
    ];
    let (_, reason) = own.into_iter().find(|(published, _)| *published == said)?;
    Some(Rejection::new(reason, status.message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_takes_is_bounded_twice_and_goes_back_with_the_call() {
        let metrics = Metrics::new().expect("metrics");
        let server = ServerBudget::new(150, 100, metrics.clone());
        let (one, other) = (server.connection(), server.connection());
        let (first, second) = (one.call(None), one.call(None));
        first.take(60).unwrap();
        let refused = second.take(41).unwrap_err();
        assert_eq!(refused.reason, Reason::Overloaded);
        assert!(refused.message.contains("100 bytes (connection_bytes_max)"), "{}", refused.message);
        second.take(40).unwrap();
        let third = other.call(None);
        let refused = third.take(51).unwrap_err();
        assert!(refused.message.contains("150 bytes (server_bytes_max)"), "{}", refused.message);
        third.take(50).unwrap();
        drop(first);
        other.call(None).take(50).unwrap();
        third.take_up_to(90).unwrap();
        third.take_up_to(10).unwrap();
        assert!(third.take(11).is_err());
        drop((second, third));
        assert_eq!(server.server.used.load(Ordering::SeqCst), 0, "nothing is lost on the way");
        assert!(one.call(None).take(usize::MAX).is_err());
        let text = metrics.text().expect("a text");
        assert!(text.contains("idempotency_ledger_refusals_total{reason=\"OVERLOADED\"} 4\n"), "{text}");
    }
}
