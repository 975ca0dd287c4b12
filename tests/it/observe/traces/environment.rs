//! That each variable of the environment does what docs/traces.md says.

use std::process::Stdio;
use std::time::{Duration, Instant};

use tonic::transport::{Identity, ServerTlsConfig};

use super::collector::{Collector, Export};
use super::{PRODUCER, REDELIVERY, end, server, within};
use crate::harness::details::claim;
use crate::harness::pki::Pki;
use crate::observe::lines;
use crate::process::sqlite;

const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// What a server with these variables sends of a claim whose caller records it, one whose caller does not, and one
/// whose caller says nothing; and its log. `AT` stands for the collector's address, and
/// `PORT` for its port.
async fn sent(variables: &[(&str, &str)], collector: &Collector) -> Vec<serde_json::Value> {
    let folder = tempfile::tempdir().unwrap();
    let at = collector.start().await;
    let (_, port) = at.rsplit_once(':').unwrap();
    let values: Vec<(&str, String)> = variables
        .iter()
        .map(|(name, value)| {
            (*name, value.replace("http://AT", &format!("http://{at}")).replace("PORT", port))
        })
        .collect();
    let variables: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let log = folder.path().join("log");
    let file = Stdio::from(std::fs::File::create(&log).unwrap());
    let server = server(&sqlite(folder.path()), &variables, file).await;
    let mut client = server.client().await;
    for (id, traceparent) in [("recorded", PRODUCER), ("unrecorded", UNSAMPLED), ("unsaid", "")] {
        client.claim(within(traceparent, claim("billing", id))).await.unwrap();
    }
    // Another attempt, which leads to the first one.
    client.claim(within(REDELIVERY, claim("billing", "recorded"))).await.unwrap();
    drop(client);
    end(server).await;
    lines(&log)
}

#[tokio::test]
async fn the_environment_says_which_calls_are_recorded() {
    const AT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://AT");
    for (variables, claims) in [
        (&[][..], 0),
        // By default the caller decides, and who says nothing is recorded.
        (&[AT], 3),
        (
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
                ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://AT"),
            ],
            3,
        ),
        (
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:PORT"),
                ("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "true"),
            ],
            3,
        ),
        (&[AT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")], 0),
        (&[AT, ("OTEL_TRACES_EXPORTER", "none")], 0),
        (&[AT, ("OTEL_SDK_DISABLED", "true")], 0),
        (&[AT, ("OTEL_TRACES_SAMPLER", "always_on")], 4),
        (&[AT, ("OTEL_TRACES_SAMPLER", "always_off")], 0),
        (&[AT, ("OTEL_TRACES_SAMPLER", "parentbased_always_off")], 2),
        (&[AT, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0")], 0),
        (&[AT, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "1")], 4),
        (&[AT, ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0")], 2),
    ] {
        let collector = Collector::default();
        sent(variables, &collector).await;
        let found = collector.spans().iter().filter(|span| span.name.ends_with("/Claim")).count();
        assert_eq!(found, claims, "{variables:?}");
    }
}

#[tokio::test]
async fn the_environment_says_how_spans_are_sent() {
    const AT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://AT");
    let resource =
        |export: &Export, name: &str, value: &str| export.resource.get(name).is_some_and(|is| is == value);
    let cases: [(&[(&str, &str)], &dyn Fn(&Export) -> bool); 9] = [
        (&[AT], &|export| {
            resource(export, "service.name", "idempotency-ledger")
                && resource(export, "service.version", env!("CARGO_PKG_VERSION"))
                && export.metadata.get("x-team").is_none()
                && export.spans.len() > 1
        }),
        (&[AT, ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=a%20b,x-more=c")], &|export| {
            export.metadata.get("x-team").is_some_and(|value| value == "a b")
                && export.metadata.get("x-more").is_some()
        }),
        (
            &[
                AT,
                ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=a"),
                ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-team=b"),
            ],
            &|export| export.metadata.get("x-team").is_some_and(|value| value == "b"),
        ),
        (&[AT, ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip")], &|export| {
            export.metadata.get("grpc-encoding").is_some_and(|value| value == "gzip")
        }),
        (
            &[AT, ("OTEL_SERVICE_NAME", "dedup"), ("OTEL_RESOURCE_ATTRIBUTES", "service.name=x,team=a")],
            &|export| resource(export, "service.name", "dedup") && resource(export, "team", "a"),
        ),
        (&[AT, ("OTEL_RESOURCE_ATTRIBUTES", "service.name=x")], &|export| {
            resource(export, "service.name", "x")
        }),
        (&[AT, ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")], &|export| export.spans.len() == 1),
        (&[AT, ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "1")], &|export| {
            export.spans.iter().all(|span| span.attributes.len() <= 1)
                && export.spans.iter().any(|span| span.dropped_attributes_count > 0)
        }),
        (&[AT, ("OTEL_SPAN_LINK_COUNT_LIMIT", "0")], &|export| {
            export.spans.iter().all(|span| span.links.is_empty())
                && export.spans.iter().any(|span| span.dropped_links_count > 0)
        }),
    ];
    for (variables, holds) in cases {
        let collector = Collector::default();
        sent(variables, &collector).await;
        let exports = collector.exports();
        assert!(!exports.is_empty() && exports.iter().all(holds), "{variables:?}: {exports:#?}");
    }
}

#[tokio::test]
async fn the_environment_says_whom_to_trust() {
    let pki = Pki::new();
    let other = Pki::new();
    let (cert, key) = pki.signed("localhost");
    let tls = ServerTlsConfig::new().identity(Identity::from_pem(cert, key));
    let (ca, no_ca) = (pki.path("ca.pem"), other.path("ca.pem"));
    for (variables, arrives) in [
        (&[("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.as_str())][..], true),
        (
            &[("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", &ca), ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere")],
            true,
        ),
        (&[("OTEL_EXPORTER_OTLP_CERTIFICATE", &no_ca)], false),
        (&[("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere")], false),
        (&[("OTEL_BSP_SCHEDULE_DELAY", "50")], false),
        // What the system trusts.
        (&[("SSL_CERT_FILE", &ca)], true),
    ] {
        let collector = Collector { tls: Some(tls.clone()), ..Collector::default() };
        let at = [&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://localhost:PORT")], variables].concat();
        sent(&at, &collector).await;
        assert_eq!(!collector.spans().is_empty(), arrives, "{variables:?}");
    }
}

/// Who needs no authorities may have none.
#[tokio::test]
async fn a_collector_without_tls_needs_no_authority() {
    let collector = Collector::default();
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://AT"), ("SSL_CERT_FILE", "/nowhere")];
    sent(&variables, &collector).await;
    assert!(!collector.spans().is_empty());
}

#[tokio::test]
async fn the_environment_says_when_spans_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::default();
    let endpoint = format!("http://{}", collector.start().await);
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "50")];
    let server = server(&sqlite(folder.path()), &variables, Stdio::null()).await;
    server.client().await.claim(claim("billing", "1")).await.unwrap();
    let until = Instant::now() + Duration::from_secs(3);
    while collector.spans().is_empty() {
        assert!(Instant::now() < until, "by default spans are sent every five seconds, and here more often");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_cannot_be_sent_is_told_and_harms_no_call() {
    for (silent, variables, says) in [
        // A collector that is not there, one that does not answer, and one for which there is too little room.
        (
            false,
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")][..],
            "BatchSpanProcessor.ExportError",
        ),
        (
            true,
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://AT"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "100")],
            "BatchSpanProcessor.ExportError",
        ),
        (
            true,
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://AT"),
                ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "100"),
                ("OTEL_BSP_MAX_QUEUE_SIZE", "1"),
            ],
            "BatchSpanProcessor.SpansDropped",
        ),
        (false, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "no address")], "no traces are recorded"),
        (
            false,
            &[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"), ("OTEL_TRACES_EXPORTER", "otlp")],
            "no traces are recorded",
        ),
        (false, &[("OTEL_METRICS_EXPORTER", "otlp")], "OTEL_METRICS_EXPORTER: not used by this server"),
    ] {
        let collector = Collector { silent, ..Collector::default() };
        let log = sent(variables, &collector).await;
        let found = log.iter().any(|line| line.to_string().contains(says));
        assert!(found, "{variables:?} must say {says:?}: {log:#?}");
    }
}
