//! The definition of a metric, and its registration.

use prometheus::{
    Error, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    core::Collector,
};

/// The type of a metric in Prometheus.
#[derive(Clone, Copy, Debug)]
pub(super) enum MetricKind {
    /// It only grows, from the start of the process on.
    Counter,
    /// It goes up and down.
    Gauge,
    /// The number of values below each of these bounds.
    Histogram(&'static [f64]),
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: MetricKind,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

pub(super) const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, kind: MetricKind::Counter, labels, help }
}

pub(super) const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, kind: MetricKind::Gauge, labels, help }
}

impl Family {
    /// The number of series for each combination of label values: for a histogram the buckets, `+Inf`, sum
    /// and count.
    pub(super) fn series(&self) -> usize {
        match self.kind {
            MetricKind::Counter | MetricKind::Gauge => 1,
            MetricKind::Histogram(bounds) => bounds.len() + 3,
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
        let MetricKind::Histogram(bounds) = self.kind else {
            return Err(Error::Msg(format!("{} is not a histogram", self.name)));
        };
        let options = HistogramOpts::new(self.name, self.help).buckets(bounds.to_vec());
        registered(registry, HistogramVec::new(options, self.labels)?)
    }
}

fn registered<C: Collector + Clone + 'static>(registry: &Registry, made: C) -> Result<C, Error> {
    registry.register(Box::new(made.clone()))?;
    Ok(made)
}
