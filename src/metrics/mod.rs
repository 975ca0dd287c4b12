//! What a running server counts of itself, for Prometheus. The names and what they tell stand in one table,
//! `catalogue.rs`; the other files count.
//!
//! No key and no id is ever a label, and every label has a bounded number of values: what clients choose (the names of
//! consumers and methods) is counted by name only while there is room.

mod calls;
mod catalogue;
mod consumers;
mod refusals;
mod work;

use std::sync::Arc;

use prometheus::{Error, Registry, TextEncoder};

pub(crate) use self::calls::{Call, Calls, Connected, Method};
pub use self::catalogue::table;
pub(crate) use self::consumers::Asked;
use self::consumers::Consumers;
use self::refusals::Refusals;
pub(crate) use self::work::Work;
use crate::domain::{Answer, Command, Rejection};

/// The metrics of one server: cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Registry,
    consumers: Consumers,
    refusals: Refusals,
    work: Work,
}

impl Metrics {
    /// With every count at zero.
    ///
    /// # Errors
    /// Two metrics have one name, or a name is none: a bug, which any test of this sees.
    pub fn new() -> Result<Metrics, Error> {
        let registry = Registry::new();
        catalogue::BUILD
            .gauges(&registry)?
            .get_metric_with_label_values(&[env!("CARGO_PKG_VERSION")])?
            .set(1);
        let inner = Inner {
            consumers: Consumers::new(&registry)?,
            refusals: Refusals::new(&registry)?,
            work: Work::new(&registry)?,
            registry,
        };
        Ok(Metrics { inner: Arc::new(inner) })
    }

    /// What Prometheus scrapes: its text format, version 0.0.4. Waits for no store.
    ///
    /// # Errors
    /// A metric cannot be written as text.
    pub fn text(&self) -> Result<String, Error> {
        TextEncoder::new().encode_to_string(&self.inner.registry.gather())
    }

    /// The calls of a server with these methods.
    ///
    /// # Errors
    /// They were made before.
    pub(crate) fn calls(&self, methods: impl IntoIterator<Item = Method>) -> Result<Calls, Error> {
        Calls::new(&self.inner.registry, methods)
    }

    /// A command comes in.
    pub(crate) fn asked(&self, consumer: &str, command: &Command) -> Asked {
        self.inner.consumers.asked(consumer, command)
    }

    /// It was answered. One that is dropped without an answer counts as that.
    pub(crate) fn answered(&self, asked: Asked, consumer: &str, answer: &Answer) {
        self.inner.consumers.answered(asked, consumer, answer);
        if let Err(rejection) = answer {
            self.refused(rejection);
        }
    }

    /// A claim or a settlement was refused.
    pub(crate) fn refused(&self, rejection: &Rejection) {
        self.inner.refusals.refused(rejection);
    }

    /// What the workers do.
    pub(crate) fn work(&self) -> &Work {
        &self.inner.work
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Reason, Settle};

    fn metrics() -> Metrics {
        let metrics = Metrics::new().unwrap();
        let method = Method { service: "s".into(), name: "M".into(), kind: "unary" };
        drop(metrics.calls([method]).unwrap());
        metrics
    }

    #[test]
    fn every_metric_of_the_catalogue_is_there() {
        let metrics = metrics();
        for family in catalogue::ALL {
            let again = match family.kind {
                catalogue::Kind::Counter => family.counters(&metrics.inner.registry).err(),
                catalogue::Kind::Gauge => family.gauges(&metrics.inner.registry).err(),
                catalogue::Kind::Histogram(_) => family.histograms(&metrics.inner.registry).err(),
            };
            assert!(matches!(again, Some(Error::AlreadyReg)), "{} is not registered", family.name);
        }
        let known = |line: &str| {
            catalogue::ALL.iter().any(|family| line.starts_with(&format!("# HELP {} ", family.name)))
        };
        for line in metrics.text().unwrap().lines().filter(|line| line.starts_with("# HELP")) {
            assert!(known(line), "not in the catalogue: {line}");
        }
    }

    #[test]
    fn names_of_clients_take_a_bounded_number_of_series() {
        let metrics = metrics();
        let release = Command::Settle(1, Settle::Release { delay: crate::domain::Span::ZERO });
        let answer =
            Ok(crate::domain::Reply::Released { state: crate::domain::State::Received, replayed: false });
        let count = |consumer: &str| metrics.answered(metrics.asked(consumer, &release), consumer, &answer);
        // Who is refused takes no place.
        let refused = Err(Rejection::new(Reason::UnknownConsumer, "no"));
        (0..1_000).for_each(|number| {
            let junk = format!("junk{number}");
            metrics.answered(metrics.asked(&junk, &release), &junk, &refused);
        });
        (0..1_000).for_each(|number| count(&format!("c{number}")));
        let text = metrics.text().unwrap();
        let lines = text.lines().filter(|line| line.starts_with("idempotency_ledger_claims_total{")).count();
        assert_eq!(lines, 101 * 10, "a hundred consumers and the others, each with ten verdicts");
        let series = |consumer: &str| {
            format!(
                "idempotency_ledger_settlements_total{{consumer=\"{consumer}\",operation=\"release\",outcome=\"ok\"}} "
            )
        };
        for (consumer, value) in
            [("c0", Some("1")), ("c99", Some("1")), ("c100", None), ("other", Some("900"))]
        {
            let found = text.lines().find_map(|line| line.strip_prefix(&series(consumer)));
            assert_eq!(found, value, "{consumer}");
        }
        // Whoever has a name keeps it.
        count("c0");
        assert!(metrics.text().unwrap().contains(&format!("{}2\n", series("c0"))));
    }

    #[test]
    fn what_is_never_answered_is_counted_too() {
        let metrics = metrics();
        let release = Command::Settle(1, Settle::Release { delay: crate::domain::Span::ZERO });
        drop(metrics.asked("c", &release));
        let line = "idempotency_ledger_settlements_total{consumer=\"other\",operation=\"release\",outcome=\"unanswered\"} 1\n";
        assert!(metrics.text().unwrap().contains(line));
    }

    #[test]
    fn refusals_and_alerts_begin_at_zero() {
        let metrics = metrics();
        let alarming = Rejection::new(Reason::TokenFromFuture, "no").alerting(Some("commits were lost"));
        metrics.refused(&alarming);
        metrics.refused(&Rejection::new(Reason::Overloaded, "no"));
        let text = metrics.text().unwrap();
        for (kind, reason, value) in [
            ("refusals", "TOKEN_FROM_FUTURE", 1),
            ("refusals", "OVERLOADED", 1),
            ("refusals", "LEASE_LOST", 0),
            ("alerts", "TOKEN_FROM_FUTURE", 1),
            ("alerts", "OVERLOADED", 0),
            ("alerts", "CLAIM_CLOSED", 0),
        ] {
            let line = format!("idempotency_ledger_{kind}_total{{reason=\"{reason}\"}} {value}\n");
            assert!(text.contains(&line), "{line} is missing");
        }
    }

    #[test]
    fn a_call_is_counted_once_however_it_ends() {
        let metrics = Metrics::new().unwrap();
        let method = Method { service: "s".into(), name: "M".into(), kind: "unary" };
        let calls = metrics.calls([method]).unwrap();
        for (path, code) in
            [("/s/M", Some(tonic::Code::Ok)), ("/s/M", None), ("/x/y", Some(tonic::Code::Unimplemented))]
        {
            let mut call = Arc::new(calls.connected()).begin(path);
            if let Some(code) = code {
                call.end(code);
            }
        }
        let text = metrics.text().unwrap();
        for (code, method, value) in
            [("OK", "M", 1), ("Canceled", "M", 1), ("Unimplemented", "unknown", 1), ("OK", "unknown", 0)]
        {
            let service = if method == "M" { "s" } else { "unknown" };
            let line = format!(
                "grpc_server_handled_total{{grpc_code=\"{code}\",grpc_method=\"{method}\",grpc_service=\"{service}\",grpc_type=\"unary\"}} {value}\n"
            );
            assert!(text.contains(&line), "{line} is missing in {text}");
        }
    }
}
