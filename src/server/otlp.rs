//! Where traces go: from OpenTelemetry's variables of the environment to a tracer that sends over OTLP, and its end.
//! The variables keep the names and the meanings that the standard gives them; the exporter reads most of them itself.

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::SdkTracerProvider;

use tonic::transport::{Certificate, ClientTlsConfig};

use crate::traces::Traces;

/// How long what was recorded last may take to be sent, at the end of the server.
const FLUSH_WITHIN: Duration = Duration::from_secs(5);
const NAME: &str = "idempotency-ledger";

/// A variable: its name without `OTEL_`, what it is unless it is set, and what it tells.
struct Variable(&'static str, &'static str, &'static str);

/// Every variable that is used. Of those that begin with `EXPORTER_OTLP_` the form with `TRACES_` behind that is used
/// too, and comes first.
const VARIABLES: &[Variable] = &[
    Variable(
        "EXPORTER_OTLP_ENDPOINT",
        "",
        "The collector, as `http://HOST:PORT` or `https://HOST:PORT`; its port for gRPC is 4317 by default. Traces are recorded \
         where this is set, or `OTEL_TRACES_EXPORTER` is `otlp`, which means `http://localhost:4317`",
    ),
    Variable(
        "EXPORTER_OTLP_HEADERS",
        "",
        "Headers of each export, as `name=value,name=value`; values are percent-encoded",
    ),
    Variable("EXPORTER_OTLP_TIMEOUT", "10000", "How long one export may take, in milliseconds"),
    Variable("EXPORTER_OTLP_COMPRESSION", "none", "`gzip`, or none"),
    Variable("EXPORTER_OTLP_INSECURE", "false", "Of an endpoint without a scheme: `true` means `http://`"),
    Variable(
        "EXPORTER_OTLP_CERTIFICATE",
        "",
        "A file with the certificates, in PEM, of the authorities that a collector's own must be signed by; without it those          that the system trusts",
    ),
    Variable("EXPORTER_OTLP_PROTOCOL", "grpc", "Only `grpc` is spoken: with any other nothing is recorded"),
    Variable("TRACES_EXPORTER", "", "`otlp`, or `none`: nothing is recorded"),
    Variable("SDK_DISABLED", "false", "`true`: nothing is recorded"),
    Variable(
        "TRACES_SAMPLER",
        "parentbased_always_on",
        "Which calls are recorded: `always_on`, `always_off`, `traceidratio`, or one of them behind `parentbased_`, by which \
         the caller decides, and the sampler only where the caller has sent no trace",
    ),
    Variable("TRACES_SAMPLER_ARG", "1", "The share of `traceidratio`, from 0 to 1"),
    Variable("SERVICE_NAME", NAME, "The name of the service that the spans belong to"),
    Variable("RESOURCE_ATTRIBUTES", "", "More about the service, as `name=value,name=value`"),
    Variable("BSP_SCHEDULE_DELAY", "5000", "How often spans are sent, in milliseconds"),
    Variable("BSP_MAX_QUEUE_SIZE", "2048", "How many spans may wait; more are dropped, and the log says so"),
    Variable("BSP_MAX_EXPORT_BATCH_SIZE", "512", "How many spans one export has, at the most"),
    Variable("SPAN_ATTRIBUTE_COUNT_LIMIT", "128", "How many attributes a span has, at the most"),
    Variable("SPAN_LINK_COUNT_LIMIT", "128", "How many links a span has, at the most"),
];
const EXPORTER: &str = "EXPORTER_OTLP_";
const NUMBERS: [&str; 6] = [
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
];

/// The table of the variables, as docs/traces.md shows it.
#[must_use]
pub fn table() -> String {
    let rows = VARIABLES.iter().map(|Variable(name, usual, what)| {
        let usual = if usual.is_empty() { String::new() } else { format!("`{usual}`") };
        format!("| `OTEL_{name}` | {usual} | {what} |\n")
    });
    format!("| variable | default | |\n| --- | --- | --- |\n{}", rows.collect::<String>())
}

/// The variables of OpenTelemetry that are set.
struct Given(BTreeMap<String, String>);

impl Given {
    /// An empty one counts as not set.
    fn of(environment: impl Iterator<Item = (String, String)>) -> Given {
        Given(environment.filter(|(name, value)| name.starts_with("OTEL_") && !value.is_empty()).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// One of the exporter's: that of traces comes first.
    fn of_exporter(&self, name: &str) -> Option<&str> {
        let of_traces = self.get(&format!("OTEL_{EXPORTER}TRACES_{name}"));
        of_traces.or_else(|| self.get(&format!("OTEL_{EXPORTER}{name}")))
    }

    fn is_known(name: &str) -> bool {
        let Some(name) = name.strip_prefix("OTEL_") else { return false };
        let general = name.strip_prefix("EXPORTER_OTLP_TRACES_").map(|rest| format!("{EXPORTER}{rest}"));
        let general = general.as_deref().unwrap_or(name);
        VARIABLES.iter().any(|Variable(known, ..)| *known == general)
    }

    /// Whether calls are recorded; where that is not what was asked for, why.
    fn wanted(&self) -> Result<bool, String> {
        if self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(false);
        }
        let wanted = match self.get("OTEL_TRACES_EXPORTER") {
            Some("none") => false,
            Some("otlp") => true,
            None => self.of_exporter("ENDPOINT").is_some(),
            Some(other) => {
                return Err(format!("OTEL_TRACES_EXPORTER: is {other}; this server knows otlp and none"));
            }
        };
        match self.of_exporter("PROTOCOL") {
            Some(other) if wanted && other != "grpc" => Err(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL: is {other}; this server speaks grpc alone: set \
                 OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc, and the port of the collector for that"
            )),
            _ => Ok(wanted),
        }
    }

    /// What is set, and has no effect or not that which it should.
    fn doubts(&self) -> Vec<String> {
        let unknown: Vec<&str> =
            self.0.keys().map(String::as_str).filter(|name| !Given::is_known(name)).collect();
        let mut doubts = Vec::new();
        if !unknown.is_empty() {
            doubts.push(format!(
                "{}: not used by this server; docs/traces.md lists what is",
                unknown.join(", ")
            ));
        }
        let numbers = NUMBERS.iter().map(|name| (*name).to_owned());
        for name in numbers.chain(["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT".to_owned()]) {
            if let Some(value) = self.get(&name).filter(|value| value.parse::<u32>().is_err()) {
                doubts.push(format!("{name}: is {value}, must be a whole number; the default is used"));
            }
        }
        doubts
    }
}

/// Sends what is recorded, until its end.
pub(super) struct Exported {
    provider: Option<SdkTracerProvider>,
}

impl Exported {
    /// As the environment has it. What is wrong with that is logged: a server without traces serves as well.
    pub(super) fn start() -> Exported {
        let given = Given::of(std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        }));
        for doubt in given.doubts() {
            tracing::warn!("{doubt}");
        }
        let provider = match given.wanted() {
            Ok(true) => match provider(&given) {
                Ok(provider) => Some(provider),
                Err(error) => {
                    tracing::error!(
                        error,
                        "no traces are recorded: OpenTelemetry's variables are set wrongly"
                    );
                    None
                }
            },
            Ok(false) => None,
            Err(doubt) => {
                tracing::warn!("{doubt}; no traces are recorded");
                None
            }
        };
        Exported { provider }
    }

    /// What records calls.
    pub(super) fn traces(&self) -> Traces {
        self.provider.as_ref().map_or_else(Traces::off, |provider| Traces::by(provider.tracer(NAME)))
    }

    /// Sends what is left.
    pub(super) async fn end(self) {
        let Some(provider) = self.provider else { return };
        let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_WITHIN)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

fn provider(given: &Given) -> Result<SdkTracerProvider, String> {
    let tls = match given.of_exporter("CERTIFICATE") {
        Some(file) => {
            let text = std::fs::read(file)
                .map_err(|error| format!("OTEL_EXPORTER_OTLP_CERTIFICATE: {file}: {error}"))?;
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(text))
        }
        None => ClientTlsConfig::new().with_enabled_roots(),
    };
    let exporter = SpanExporter::builder().with_tonic().with_tls_config(tls).build();
    let exporter = exporter.map_err(|error| error.to_string())?;
    let resource = Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", NAME),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", crate::random::id().to_string()),
        ])
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    let resource = match given.get("OTEL_SERVICE_NAME") {
        Some(name) => resource.with_service_name(name.to_owned()),
        None => resource,
    };
    Ok(SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(all: &[(&str, &str)]) -> Given {
        Given::of(all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn calls_are_recorded_where_the_environment_says_where_to() {
        let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
        for (all, wanted) in [
            (&[][..], Ok(false)),
            (&[at], Ok(true)),
            (&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:4317")], Ok(true)),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")], Ok(false)),
            (&[("OTEL_SERVICE_NAME", "x")], Ok(false)),
            (&[("OTEL_TRACES_EXPORTER", "otlp")], Ok(true)),
            (&[at, ("OTEL_TRACES_EXPORTER", "none")], Ok(false)),
            (&[at, ("OTEL_TRACES_EXPORTER", "zipkin")], Err("OTEL_TRACES_EXPORTER: is zipkin")),
            (&[at, ("OTEL_SDK_DISABLED", "True")], Ok(false)),
            (&[at, ("OTEL_SDK_DISABLED", "false")], Ok(true)),
            (&[at, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], Ok(true)),
            (
                &[at, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")],
                Err("OTEL_EXPORTER_OTLP_PROTOCOL: is http/protobuf"),
            ),
            (&[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")], Ok(false)),
            (
                &[
                    at,
                    ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
                    ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
                ],
                Ok(true),
            ),
        ] {
            let got = given(all).wanted();
            match wanted {
                Ok(wanted) => assert_eq!(got, Ok(wanted), "{all:?}"),
                Err(begin) => {
                    assert!(got.as_ref().is_err_and(|text| text.starts_with(begin)), "{all:?}: {got:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_set_in_vain_is_told() {
        for (all, doubts) in [
            (&[("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b"), ("PATH", "x")][..], &[][..]),
            (
                &[("OTEL_METRICS_EXPORTER", "otlp"), ("OTEL_PROPAGATORS", "b3")],
                &["OTEL_METRICS_EXPORTER, OTEL_PROPAGATORS: not used"],
            ),
            (&[("OTEL_EXPORTER_OTLP_TRACES", "x")], &["OTEL_EXPORTER_OTLP_TRACES: not used"]),
            (
                &[("OTEL_BSP_SCHEDULE_DELAY", "5s")],
                &["OTEL_BSP_SCHEDULE_DELAY: is 5s, must be a whole number"],
            ),
            (&[("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "-1")], &["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: is -1"]),
        ] {
            let told = given(all).doubts();
            assert_eq!(told.len(), doubts.len(), "{all:?}: {told:?}");
            assert!(
                told.iter().zip(doubts).all(|(told, begin)| told.starts_with(begin)),
                "{all:?}: {told:?}"
            );
        }
    }
}
