//! The server of the conformance suite of Connect: its service behind the ledger's HTTP port. The runner starts it, sends
//! the configuration to its standard input, and reads the address from its standard output. Its messages are read and written by
//! their descriptors, from the suite's own files: the first argument is their folder.

use std::convert::Infallible;
use std::error::Error;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage as _, Value};
use tonic::body::Body;
use tonic::{Code, Status};

const SERVICE: &str = "connectrpc.conformance.v1.ConformanceService";
const PACKAGE: &str = "connectrpc.conformance.v1";

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let folder = std::env::args().nth(1).ok_or("the folder of the protobuf files is missing")?;
    let files = ["connectrpc/conformance/v1/service.proto", "connectrpc/conformance/v1/server_compat.proto"];
    let pool = DescriptorPool::from_file_descriptor_set(protox::compile(files, [folder])?)?;
    // The request for a server: this server follows the runner's configuration in any case.
    let mut length = [0; 4];
    std::io::stdin().read_exact(&mut length)?;
    let mut asked = vec![0; usize::try_from(u32::from_be_bytes(length))?];
    std::io::stdin().read_exact(&mut asked)?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let mut response = message(&pool, "ServerCompatResponse")?;
    response.set_field_by_name("host", Value::String("127.0.0.1".to_owned()));
    response.set_field_by_name("port", Value::U32(listener.local_addr()?.port().into()));
    let response = response.encode_to_vec();
    let mut out = std::io::stdout();
    out.write_all(&u32::try_from(response.len())?.to_be_bytes())?;
    out.write_all(&response)?;
    out.flush()?;
    let service = Conformance { pool: pool.clone() };
    idempotency_ledger::rpc::any_service::serve(listener, service, &pool, SERVICE).await
}

fn message(pool: &DescriptorPool, name: &str) -> Result<DynamicMessage, Failure> {
    let full = format!("{PACKAGE}.{name}");
    Ok(DynamicMessage::new(pool.get_message_by_name(&full).ok_or(format!("unknown message {full}"))?))
}

/// The service, as gRPC calls it.
#[derive(Clone)]
struct Conformance {
    pool: DescriptorPool,
}

impl tower::Service<Request<Body>> for Conformance {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let answered = service.answer(request).await;
            Ok(answered.unwrap_or_else(|error| Status::internal(error.to_string()).into_http()))
        })
    }
}

impl Conformance {
    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, Failure> {
        let (head, body) = request.into_parts();
        let name = head.uri.path().rsplit('/').next().unwrap_or_default().to_owned();
        // An error of the HTTP layer while it reads a message arrives as an error of the body.
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(status) => return Ok(status.into_http()),
        };
        if name == "Unimplemented" {
            return Ok(answered(HeaderMap::new(), None, HeaderMap::new(), &Status::unimplemented("never")));
        }
        let mut asked = message(&self.pool, &format!("{name}Request"))?;
        asked.merge(body.get(5..).ok_or("no message")?)?;
        let definition = asked.get_field_by_name("response_definition").ok_or("no definition")?;
        let definition = definition.as_message().ok_or("no definition")?.clone();
        let info = self.info(&head.headers, &asked)?;
        let delay = definition.get_field_by_name("response_delay_ms").and_then(|delay| delay.as_u32());
        tokio::time::sleep(Duration::from_millis(delay.unwrap_or_default().into())).await;
        let leading = headers(&definition, "response_headers")?;
        let trailers = headers(&definition, "response_trailers")?;
        if definition.has_field_by_name("error") {
            let error = definition.get_field_by_name("error").ok_or("no error")?;
            let status = self.status(error.as_message().ok_or("no error")?, &info)?;
            return Ok(answered(leading, None, trailers, &status));
        }
        let mut payload = message(&self.pool, "ConformancePayload")?;
        if definition.has_field_by_name("response_data") {
            let data = definition.get_field_by_name("response_data").ok_or("no data")?.into_owned();
            payload.set_field_by_name("data", data);
        }
        payload.set_field_by_name("request_info", Value::Message(info));
        let mut response = message(&self.pool, &format!("{name}Response"))?;
        response.set_field_by_name("payload", Value::Message(payload));
        Ok(answered(leading, Some(response.encode_to_vec()), trailers, &Status::ok("")))
    }

    /// What the server saw of the request.
    fn info(&self, headers: &HeaderMap, asked: &DynamicMessage) -> Result<DynamicMessage, Failure> {
        let mut info = message(&self.pool, "ConformancePayload.RequestInfo")?;
        let mut all = Vec::new();
        for name in headers.keys() {
            let values = headers
                .get_all(name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            let mut header = message(&self.pool, "Header")?;
            header.set_field_by_name("name", Value::String(name.to_string()));
            header.set_field_by_name("value", Value::List(values.map(Value::String).collect()));
            all.push(Value::Message(header));
        }
        info.set_field_by_name("request_headers", Value::List(all));
        let timeout = headers
            .get("grpc-timeout")
            .and_then(|value| value.to_str().ok()?.strip_suffix('m')?.parse().ok());
        if let Some(milliseconds) = timeout {
            info.set_field_by_name("timeout_ms", Value::I64(milliseconds));
        }
        info.set_field_by_name("requests", Value::List(vec![Value::Message(self.any(asked)?)]));
        Ok(info)
    }

    fn any(&self, of: &DynamicMessage) -> Result<DynamicMessage, Failure> {
        let descriptor = self
            .pool
            .get_message_by_name("google.protobuf.Any")
            .ok_or("unknown message google.protobuf.Any")?;
        let mut any = DynamicMessage::new(descriptor);
        let url = format!("type.googleapis.com/{}", of.descriptor().full_name());
        any.set_field_by_name("type_url", Value::String(url));
        any.set_field_by_name("value", Value::Bytes(of.encode_to_vec().into()));
        Ok(any)
    }

    /// The error that was asked for, which also says what the server saw.
    fn status(&self, error: &DynamicMessage, info: &DynamicMessage) -> Result<Status, Failure> {
        let code = error.get_field_by_name("code").and_then(|code| code.as_enum_number()).unwrap_or_default();
        let text = error.get_field_by_name("message");
        let text = text.and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default();
        let details = error.get_field_by_name("details").ok_or("no details")?.into_owned();
        let own = Value::Message(self.any(info)?);
        let details: Vec<Value> =
            details.as_list().unwrap_or_default().iter().cloned().chain([own]).collect();
        let details = details
            .iter()
            .filter_map(Value::as_message)
            .map(|any| prost_types::Any::decode(&any.encode_to_vec()[..]));
        let details = details.collect::<Result<Vec<_>, _>>()?;
        let status = tonic_types::pb::Status { code, message: text.clone(), details };
        Ok(Status::with_details(Code::from_i32(code), text, status.encode_to_vec().into()))
    }
}

fn headers(definition: &DynamicMessage, field: &str) -> Result<HeaderMap, Failure> {
    let mut map = HeaderMap::new();
    let listed = definition.get_field_by_name(field).ok_or("no headers")?;
    for header in listed.as_list().unwrap_or_default().iter().filter_map(Value::as_message) {
        let name = header.get_field_by_name("name").ok_or("no name")?;
        let name = HeaderName::from_bytes(name.as_str().unwrap_or_default().as_bytes())?;
        let values = header.get_field_by_name("value").ok_or("no values")?;
        for value in values.as_list().unwrap_or_default().iter().filter_map(Value::as_str) {
            map.append(name.clone(), HeaderValue::from_str(value)?);
        }
    }
    Ok(map)
}

/// A whole answer of gRPC: its message, and its status behind it.
fn answered(
    headers: HeaderMap,
    message: Option<Vec<u8>>,
    mut trailers: HeaderMap,
    status: &Status,
) -> Response<Body> {
    let mut frames: Vec<Result<Frame<Bytes>, Infallible>> = Vec::new();
    if let Some(message) = message {
        let mut whole = BytesMut::with_capacity(5 + message.len());
        whole.put_u8(0);
        whole.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
        whole.put_slice(&message);
        frames.push(Ok(Frame::data(whole.freeze())));
    }
    if status.add_header(&mut trailers).is_ok() {
        frames.push(Ok(Frame::trailers(trailers)));
    }
    let mut response = Response::new(Body::new(StreamBody::new(futures_util::stream::iter(frames))));
    *response.headers_mut() = headers;
    response
}
