//! Calls by gRPC. The servers are looked for with the first call, in its runtime.

use std::{
    fs, io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use tokio::time::{Instant, timeout_at};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    metadata::{Ascii, MetadataMap, MetadataValue},
};

use crate::{
    balance::{Servers, chain, is_unsent},
    calls::{Boxed, Call, Failure, Method, TEXT_LENGTH, Transport},
    connection::Target,
    telemetry,
};

/// How often a call that was not sent is given to another connection within one try.
const RESENDS: usize = 3;
/// More than any server asks for; what is larger could not be added to an instant.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(366 * 86_400);

/// The transport of a client.
pub(crate) struct Channels {
    target: Target,
    token: Option<TokenFile>,
    state: Mutex<State>,
}

enum State {
    Unused,
    Open(Arc<Servers>),
    Closed,
}

impl Channels {
    pub(crate) fn new(target: Target) -> Self {
        let token = target.token_file.clone().map(TokenFile::new);
        Self { target, token, state: Mutex::new(State::Unused) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn servers(&self) -> Option<Arc<Servers>> {
        let mut state = self.state();
        if matches!(*state, State::Unused) {
            *state = State::Open(Arc::new(Servers::of(self.target.clone())));
        }
        if let State::Open(servers) = &*state { Some(Arc::clone(servers)) } else { None }
    }

    /// Ends the connections: nothing can be sent any more.
    pub(crate) fn close(&self) {
        *self.state() = State::Closed;
    }

    async fn unary(&self, servers: &Servers, call: &Call, deadline: Instant) -> Result<Bytes, Failure> {
        let mut resends = 0..RESENDS;
        loop {
            let Some(channel) = servers.channel().await else { return Err(closed()) };
            let mut request = Request::new(call.request.clone());
            request.set_timeout(deadline.saturating_duration_since(Instant::now()));
            telemetry::inject(request.metadata_mut());
            if let Some(token) = &self.token {
                let read = token.current();
                let read =
                    read.map_err(|error| Failure::local("UNAVAILABLE", format!("token_file: {error}")))?;
                request.metadata_mut().insert("authorization", read);
            }
            let mut grpc = Grpc::new(channel);
            grpc.ready().await.map_err(|error| Failure::local("UNAVAILABLE", chain(&error)))?;
            match grpc.unary(request, path(call.method), Raw).await {
                Ok(answer) => return Ok(answer.into_inner()),
                // Nothing was sent: another connection takes the call, without a pause.
                Err(status) if is_unsent(&status) && resends.next().is_some() => {
                    tokio::task::yield_now().await;
                }
                // The channel ends a call at its deadline with another status.
                Err(_) if Instant::now() >= deadline => return Err(late(servers)),
                Err(status) => return Err(failure(&status)),
            }
        }
    }
}

impl Transport for Channels {
    fn send(&self, call: Call) -> Boxed<'_, Result<Bytes, Failure>> {
        Box::pin(async move {
            let Some(servers) = self.servers() else { return Err(closed()) };
            let deadline = Instant::now() + call.timeout;
            let answered = timeout_at(deadline, self.unary(&servers, &call, deadline)).await;
            answered.unwrap_or_else(|_| Err(late(&servers)))
        })
    }

    fn endpoint(&self) -> &str {
        &self.target.endpoint
    }
}

fn late(servers: &Servers) -> Failure {
    Failure::local("DEADLINE_EXCEEDED", servers.why())
}

fn closed() -> Failure {
    Failure::local("CANCELLED", "the client is closed")
}

fn path(method: Method) -> PathAndQuery {
    PathAndQuery::from_static(match method {
        Method::Claim => "/idempotency.ledger.v1.LedgerService/Claim",
        Method::ClaimNext => "/idempotency.ledger.v1.LedgerService/ClaimNext",
        Method::Store => "/idempotency.ledger.v1.LedgerService/Store",
        Method::Renew => "/idempotency.ledger.v1.LedgerService/Renew",
        Method::Complete => "/idempotency.ledger.v1.LedgerService/Complete",
        Method::Fail => "/idempotency.ledger.v1.LedgerService/Fail",
        Method::Release => "/idempotency.ledger.v1.LedgerService/Release",
    })
}

/// What an error of gRPC says in the ledger's terms, by the trailers with which the ledger marks its own errors.
fn failure(status: &Status) -> Failure {
    let trailers: &MetadataMap = status.metadata();
    let text_of = |name: &str| {
        let found = trailers.get(name).and_then(|value| value.to_str().ok());
        found.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let after = text_of("idempotency-ledger-retry-after-ms").and_then(|text| text.parse().ok());
    Failure {
        code: name(status.code()),
        reason: text_of("idempotency-ledger-reason"),
        advice: text_of("idempotency-ledger-advice"),
        retry_after: after.map(|after| Duration::from_millis(after).min(LONGEST_RETRY_AFTER)),
        text: chain(status).chars().take(TEXT_LENGTH).collect(),
    }
}

fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// Messages that are encoded already: a repeat sends the same bytes.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// When a file was changed, how long it is, and which file it is.
type Stamp = (SystemTime, u64, u64);

/// The bearer token of a file, which is read again when the file changes.
struct TokenFile {
    path: PathBuf,
    read: Mutex<Option<(Stamp, MetadataValue<Ascii>)>>,
}

impl TokenFile {
    fn new(path: PathBuf) -> Self {
        Self { path, read: Mutex::new(None) }
    }

    /// The token as the file has it now. Two calls of the system, of a file that is in memory.
    fn current(&self) -> io::Result<MetadataValue<Ascii>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let found = fs::metadata(&self.path)?;
        #[cfg(unix)]
        let which = std::os::unix::fs::MetadataExt::ino(&found);
        #[cfg(not(unix))]
        let which = 0;
        let stamp = (found.modified()?, found.len(), which);
        if let Some((_, token)) = read.as_ref().filter(|(known, _)| *known == stamp) {
            return Ok(token.clone());
        }
        let text = fs::read_to_string(&self.path)?;
        let token = MetadataValue::try_from(format!("Bearer {}", text.trim()));
        let mut token = token.map_err(|_| io::Error::other("the file has a character that no token has"))?;
        token.set_sensitive(true);
        *read = Some((stamp, token.clone()));
        Ok(token)
    }
}
