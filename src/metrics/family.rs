//! What a metric is, and how it is registered.

use prometheus::{
    Error, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    core::Collector,
};

/// What a metric is to Prometheus.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// It only grows, from the start of the process on.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How many fell below each of these bounds.
    Histogram(&'static [f64]),
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

pub(super) const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, kind: Kind::Counter, labels, help }
}

pub(super) const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, kind: Kind::Gauge, labels, help }
}

impl Family {
    /// How many series it has for each value of its labels: of a histogram the buckets, that of all, sum and count.
    pub(super) fn series(&self) -> usize {
        match self.kind {
            Kind::Counter | Kind::Gauge => 1,
            Kind::Histogram(bounds) => bounds.len() + 3,
        }
    }

    pub(super) fn counters(&self, registry: &Registry) -> Result<IntCounterVec, Error> {
        registered(registry, IntCounterVec::new(Opts::new(self.name, self.help), self.labels)?)
    }

    pub(super) fn gauges(&self, registry: &Registry) -> Result<IntGaugeVec, Error> {
        registered(registry, IntGaugeVec::new(Opts::new(self.name, self.help), self.labels)?)
    }

    /// A counter without labels.
    pub(super) fn counter(&self, registry: &Registry) -> Result<IntCounter, Error> {
        self.counters(registry)?.get_metric_with_label_values::<&str>(&[])
    }

    /// A gauge without labels.
    pub(super) fn gauge(&self, registry: &Registry) -> Result<IntGauge, Error> {
        self.gauges(registry)?.get_metric_with_label_values::<&str>(&[])
    }

    pub(super) fn histograms(&self, registry: &Registry) -> Result<HistogramVec, Error> {
        let Kind::Histogram(bounds) = self.kind else {
            return Err(Error::Msg(format!("{} is no histogram", self.name)));
        };
        let options = HistogramOpts::new(self.name, self.help).buckets(bounds.to_vec());
        registered(registry, HistogramVec::new(options, self.labels)?)
    }
}

fn registered<C: Collector + Clone + 'static>(registry: &Registry, made: C) -> Result<C, Error> {
    registry.register(Box::new(made.clone()))?;
    Ok(made)
}
