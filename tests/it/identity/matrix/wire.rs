//! A call of any RPC as bytes, with any headers, and its whole answer: so that two answers can be compared.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Extensions, Request, Status};

use super::rpcs::Method;
use crate::harness::raw::Raw;

/// No answer takes this long unless the server hangs.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// The headers of a call, in their order; a name may occur twice.
pub(super) type Headers = Vec<(&'static str, Vec<u8>)>;

/// A whole answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// The status; `None` if the call succeeded.
    pub(super) status: Option<Status>,
    pub(super) messages: Vec<Vec<u8>>,
}

impl Answer {
    pub(super) fn code(&self) -> Code {
        self.status.as_ref().map_or(Code::Ok, Status::code)
    }

    /// All that a caller can see of the answer except the time of day.
    pub(super) fn seen(&self) -> String {
        let status = self.status.as_ref().map(|status| {
            let mut headers: Vec<String> = status
                .metadata()
                .as_ref()
                .iter()
                .filter(|(name, _)| *name != "date")
                .map(|(name, value)| format!("{name}={value:?}"))
                .collect();
            headers.sort();
            (status.code(), status.message().to_owned(), status.details().to_vec(), headers)
        });
        format!("{status:?} {:?}", self.messages)
    }
}

/// A way to the server.
pub(super) trait Calls {
    fn call(
        &self,
        method: &Method,
        headers: &Headers,
        message: Vec<u8>,
    ) -> impl Future<Output = Answer> + Send;
}

impl Calls for Channel {
    async fn call(&self, method: &Method, headers: &Headers, message: Vec<u8>) -> Answer {
        by_grpc(self, method, headers, message).await
    }
}

/// Calls a method with one message. Of a stream that only ends with its caller one message is read.
pub(super) async fn call(to: &impl Calls, method: &Method, headers: &Headers, message: Vec<u8>) -> Answer {
    to.call(method, headers, message).await
}

async fn by_grpc(channel: &Channel, method: &Method, headers: &Headers, message: Vec<u8>) -> Answer {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
    }
    let message = futures_util::stream::iter([message]);
    let request = Request::from_parts(MetadataMap::from_headers(map), Extensions::default(), message);
    let answered = async {
        let mut client = tonic::client::Grpc::new(channel.clone());
        let mut answer = Answer { status: None, messages: Vec::new() };
        if let Err(error) = client.ready().await {
            return Answer { status: Some(Status::unavailable(error.to_string())), ..answer };
        }
        let path = method.path().parse().unwrap();
        let mut messages = match client.streaming(request, path, Raw).await {
            Ok(response) => response.into_inner(),
            Err(status) => return Answer { status: Some(status), ..answer },
        };
        loop {
            match messages.message().await {
                Ok(Some(message)) => answer.messages.push(message),
                Ok(None) => return answer,
                Err(status) => return Answer { status: Some(status), ..answer },
            }
            if method.never_ends() {
                return answer;
            }
        }
    };
    timeout(ANSWER_WITHIN, answered).await.unwrap_or_else(|_| panic!("{} does not answer", method.path()))
}
