//! The exporter of traces over OTLP, configured by OpenTelemetry's environment variables, and its shutdown.

mod variables;

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use tonic::transport::{Certificate, ClientTlsConfig};

use self::variables::{ATTRIBUTES, BATCH, DELAY, Given, LINKS, QUEUE, TIMEOUT};
use crate::traces::Traces;

pub use self::variables::table;

/// Bound on sending the last spans at the end of the server.
const FLUSH_WITHIN: Duration = Duration::from_secs(5);
const NAME: &str = "idempotency-ledger";

/// The exporter of recorded spans.
pub(super) struct Exported {
    provider: Option<SdkTracerProvider>,
}

impl Exported {
    /// Starts the exporter by the environment. Problems are only logged: a server also works without traces.
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

    /// The recorder of calls.
    pub(super) fn traces(&self) -> Traces {
        self.provider.as_ref().map_or_else(Traces::off, |provider| Traces::by(provider.tracer(NAME)))
    }

    /// Stops without sending the remaining spans.
    pub(super) fn give_up(&self) {
        if let Some(provider) = &self.provider {
            // The error about remaining spans is expected.
            let _ended = provider.shutdown_with_timeout(Duration::ZERO);
        }
    }

    /// Sends the remaining spans, and stops.
    pub(super) async fn end(&self) {
        let Some(provider) = self.provider.clone() else { return };
        let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_WITHIN)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

fn provider(given: &Given) -> Result<SdkTracerProvider, String> {
    let milliseconds = |number| Duration::from_millis(given.number_or_usual(number).into());
    let count = |number| usize::try_from(given.number_or_usual(number)).unwrap_or(usize::MAX);
    let mut exporter = SpanExporter::builder().with_tonic().with_timeout(milliseconds(&TIMEOUT));
    // Only for TLS: a system without certificate authorities must still be able to export without TLS.
    if given.is_secure() {
        exporter = exporter.with_tls_config(tls(given)?);
    }
    let exporter = exporter.build().map_err(|error| error.to_string())?;
    let batches = BatchConfigBuilder::default()
        .with_scheduled_delay(milliseconds(&DELAY))
        .with_max_queue_size(count(&QUEUE))
        .with_max_export_batch_size(count(&BATCH));
    let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches.build()).build();
    let resource = Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", NAME),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", crate::common::random::id().to_string()),
        ])
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    let resource = match given.get("OTEL_SERVICE_NAME") {
        Some(name) => resource.with_service_name(name.to_owned()),
        None => resource,
    };
    Ok(SdkTracerProvider::builder()
        .with_resource(resource.build())
        .with_max_attributes_per_span(given.number_or_usual(&ATTRIBUTES))
        .with_max_links_per_span(given.number_or_usual(&LINKS))
        .with_span_processor(processor)
        .build())
}

fn tls(given: &Given) -> Result<ClientTlsConfig, String> {
    let Some(file) = given.of_exporter("CERTIFICATE") else {
        return Ok(ClientTlsConfig::new().with_native_roots());
    };
    let text =
        std::fs::read(file).map_err(|error| format!("OTEL_EXPORTER_OTLP_CERTIFICATE: {file}: {error}"))?;
    Ok(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(text)))
}
