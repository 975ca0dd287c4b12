//! Bytes as a request, whatever they are.

use bytes::{Buf as _, BufMut as _};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::server::TestServer;

/// Messages as their bytes, sent as they are.
#[derive(Clone, Copy, Default)]
pub(crate) struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;
    fn encoder(&mut self) -> Raw {
        Raw
    }
    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;
    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;
    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}

pub(crate) async fn channel(server: &TestServer) -> Channel {
    channel_to(&server.address().to_string()).await
}

pub(crate) async fn channel_to(address: &str) -> Channel {
    Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

/// Calls a method of the package, as `Service/Method`.
pub(crate) async fn send(channel: &Channel, method: &str, bytes: Vec<u8>) -> Result<(), Status> {
    answers(channel, method, Request::new(bytes)).await.map(drop)
}

/// The same; all that is answered.
pub(crate) async fn answers(
    channel: &Channel,
    method: &str,
    request: Request<Vec<u8>>,
) -> Result<Vec<Vec<u8>>, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let path = format!("/idempotency.ledger.v1.{method}").parse().unwrap();
    // One answer is a stream of one.
    let mut stream = client.server_streaming(request, path, Raw).await?.into_inner();
    let mut all = Vec::new();
    while let Some(answer) = stream.message().await? {
        all.push(answer);
    }
    Ok(all)
}
