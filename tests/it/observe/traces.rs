//! What a collector gets over OTLP: the way of one message, and that each variable of the environment does what
//! docs/traces.md says.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use idempotency_ledger::rpc::proto;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, ServerTlsConfig};
use tonic::{Request, Response, Status};

use super::postgres;
use crate::harness::details::{acquired, claim, key};
use crate::harness::pki::Pki;
use crate::harness::postgres::free_port;
use crate::process::{BINARY, Server, sqlite};

const PRODUCER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const REDELIVERY: &str = "00-8a3c60f7d188f8fa79d48a391a778fa6-53995c3f42cd8ad8-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
const LEDGER: &str = "idempotency.ledger.v1.LedgerService";

/// What came with one export.
#[derive(Clone, Debug)]
struct Export {
    metadata: MetadataMap,
    resource: BTreeMap<String, String>,
    spans: Vec<Span>,
}

/// A collector, which answers unless it is told to keep its clients waiting.
#[derive(Clone, Default)]
struct Collector {
    exports: Arc<Mutex<Vec<Export>>>,
    silent: bool,
    tls: Option<ServerTlsConfig>,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        if self.silent {
            std::future::pending::<()>().await;
        }
        let (metadata, _, ExportTraceServiceRequest { resource_spans }) = request.into_parts();
        for of in resource_spans {
            let resource = told(&of.resource.unwrap_or_default().attributes);
            let spans = of.scope_spans.into_iter().flat_map(|scope| scope.spans).collect();
            self.exports.lock().unwrap().push(Export { metadata: metadata.clone(), resource, spans });
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Serves; gives its address.
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let service = TraceServiceServer::new(self.clone()).accept_compressed(CompressionEncoding::Gzip);
        let mut server = tonic::transport::Server::builder();
        if let Some(tls) = &self.tls {
            server = server.tls_config(tls.clone()).unwrap();
        }
        let server = server.add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        address
    }

    fn exports(&self) -> Vec<Export> {
        self.exports.lock().unwrap().clone()
    }

    fn spans(&self) -> Vec<Span> {
        self.exports().into_iter().flat_map(|export| export.spans).collect()
    }
}

fn told(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &KeyValue| match value.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|one| (one.key.clone(), text(one))).collect()
}

/// With a trace context.
fn within<T>(traceparent: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if !traceparent.is_empty() {
        request.metadata_mut().insert("traceparent", traceparent.parse().unwrap());
    }
    request
}

/// A server with these variables. Those of the test's own environment do not reach it.
async fn server(url: &str, variables: &[(&str, &str)], log: Stdio) -> Server {
    let mut command = Command::new(BINARY);
    let inherited = std::env::vars_os().map(|(name, _)| name);
    for name in inherited.filter(|name| name.to_string_lossy().starts_with("OTEL_")) {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    let observed = format!("127.0.0.1:{}", free_port());
    Server::with(command, url, &["--observe-listen", &observed, "--log-format", "json"], log).await
}

/// Ends it as an operator would: what it has recorded is sent.
async fn end(mut server: Server) {
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let until = Instant::now() + Duration::from_secs(20);
    while server.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "the server does not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_way_of_a_message_is_told_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    // The insert does not tell what it met.
    the_way_of_a_message_is_told(&sqlite(folder.path()), "sqlite", &["insert", "load", "replace"]).await;
}

#[tokio::test]
async fn the_way_of_a_message_is_told_on_postgres() {
    let (_cluster, url) = postgres();
    the_way_of_a_message_is_told(&url, "postgresql", &["insert", "replace"]).await;
}

/// An attempt that fails, in the producer's trace; the attempt after that, in another trace, and its completion.
/// `again` are the statements of the second claim.
async fn the_way_of_a_message_is_told(url: &str, database: &str, again: &[&str]) {
    let collector = Collector::default();
    let endpoint = format!("http://{}", collector.start().await);
    let server = server(url, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)], Stdio::null()).await;
    let mut client = server.client().await;
    let order = || proto::ClaimRequest { event_type: "order.paid".into(), ..claim("billing", "1") };
    let first = acquired(client.claim(within(PRODUCER, order())).await.unwrap().get_ref());
    let failed = proto::FailRequest {
        key: key("billing", "1"),
        token: first.token,
        retry_after: Some(prost_types::Duration::default()),
        ..proto::FailRequest::default()
    };
    client.fail(within(PRODUCER, failed)).await.unwrap();
    let second = acquired(client.claim(within(REDELIVERY, order())).await.unwrap().get_ref());
    let done = proto::CompleteRequest {
        key: key("billing", "1"),
        token: second.token,
        ..proto::CompleteRequest::default()
    };
    client.complete(within(REDELIVERY, done)).await.unwrap();
    drop(client);
    end(server).await;

    let spans = collector.spans();
    let children = |parent: &[u8]| -> Vec<&Span> {
        let mut found: Vec<&Span> = spans.iter().filter(|span| span.parent_span_id == parent).collect();
        found.sort_by_key(|span| span.start_time_unix_nano);
        found
    };
    for (context, calls) in [
        (PRODUCER, &[("Claim", &["insert"][..]), ("Fail", &["load", "replace"])][..]),
        (REDELIVERY, &[("Claim", again), ("Complete", &["complete"])]),
    ] {
        let parts: Vec<&str> = context.split('-').collect();
        let (trace, parent) = (hex::decode(parts[1]).unwrap(), hex::decode(parts[2]).unwrap());
        let served = children(&parent);
        let names: Vec<&str> = served.iter().map(|span| span.name.as_str()).collect();
        let methods: Vec<String> = calls.iter().map(|(method, _)| format!("{LEDGER}/{method}")).collect();
        assert_eq!(names, methods, "{spans:#?}");
        for (call, (method, statements)) in served.iter().zip(calls) {
            let attributes = told(&call.attributes);
            for (name, value) in [
                ("rpc.system.name", "grpc"),
                ("rpc.method", call.name.as_str()),
                ("rpc.response.status_code", "OK"),
                ("idempotency_ledger.consumer", "billing"),
            ] {
                assert_eq!(attributes.get(name).map(String::as_str), Some(value), "{method}");
            }
            assert_eq!(
                (call.kind(), call.trace_id.clone()),
                (span_kind("SERVER"), trace.clone()),
                "{method}"
            );
            let batches = children(&call.span_id);
            assert_eq!(batches.len(), 1, "{method}");
            let batch = batches[0];
            assert_eq!((batch.name.as_str(), batch.kind()), ("batch", span_kind("INTERNAL")), "{method}");
            let sent = children(&batch.span_id);
            let names: Vec<&str> = sent.iter().map(|span| span.name.as_str()).collect();
            assert_eq!(names, *statements, "{method}");
            for statement in sent {
                let attributes = told(&statement.attributes);
                assert_eq!(attributes["db.system.name"], database, "{method}");
                assert_eq!(attributes["db.query.summary"], statement.name, "{method}");
                assert!(
                    !attributes.contains_key("db.operation.batch.size"),
                    "one row is no batch: {attributes:?}"
                );
                assert_eq!(
                    (statement.kind(), statement.trace_id.clone()),
                    (span_kind("CLIENT"), trace.clone())
                );
            }
        }
    }
    let claims: Vec<&Span> = spans.iter().filter(|span| span.name.ends_with("/Claim")).collect();
    let (one, two) = (claims[0], claims[1]);
    for (claim, attempt) in [(one, "1"), (two, "2")] {
        let attributes = told(&claim.attributes);
        assert_eq!(attributes["idempotency_ledger.verdict"], "acquired");
        assert_eq!(attributes["idempotency_ledger.attempt"], attempt);
        assert_eq!(attributes["idempotency_ledger.event_type"], "order.paid");
    }
    assert!(one.links.is_empty(), "{:?}", one.links);
    // The entry keeps the context that came with the first attempt.
    let parts: Vec<&str> = PRODUCER.split('-').collect();
    let linked: Vec<_> =
        two.links.iter().map(|link| (hex::encode(&link.trace_id), hex::encode(&link.span_id))).collect();
    assert_eq!(linked, [(parts[1].to_owned(), parts[2].to_owned())]);
}

fn span_kind(name: &str) -> opentelemetry_proto::tonic::trace::v1::span::SpanKind {
    opentelemetry_proto::tonic::trace::v1::span::SpanKind::from_str_name(&format!("SPAN_KIND_{name}"))
        .unwrap()
}

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
    super::lines(&log)
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
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:PORT"), ("OTEL_EXPORTER_OTLP_INSECURE", "true")], 3),
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
        (&[AT, ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")], &|export| {
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
