//! A collector of the tests' own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

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
use tonic::transport::ServerTlsConfig;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// What came with one export.
#[derive(Clone, Debug)]
pub(super) struct Export {
    pub(super) metadata: MetadataMap,
    pub(super) resource: BTreeMap<String, String>,
    pub(super) spans: Vec<Span>,
}

/// A collector, which answers unless it is told to keep its clients waiting.
#[derive(Clone, Default)]
pub(super) struct Collector {
    pub(super) exports: Arc<Mutex<Vec<Export>>>,
    pub(super) silent: bool,
    pub(super) tls: Option<ServerTlsConfig>,
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
    pub(super) async fn start(&self) -> String {
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

    pub(super) fn exports(&self) -> Vec<Export> {
        self.exports.lock().unwrap().clone()
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        self.exports().into_iter().flat_map(|export| export.spans).collect()
    }
}

pub(super) fn told(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &KeyValue| match value.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|one| (one.key.clone(), text(one))).collect()
}
