//! Bytes as a request, whatever they are.

use bytes::{Buf as _, BufMut as _};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::server::TestServer;

/// Sends bytes as they are.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = ();
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
    type Item = ();
    type Error = Status;
    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        from.advance(from.remaining());
        Ok(Some(()))
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
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let path = format!("/idempotency.ledger.v1.{method}").parse().unwrap();
    // One answer is a stream of one.
    let mut answers = client.server_streaming(Request::new(bytes), path, Raw).await?.into_inner();
    while answers.message().await?.is_some() {}
    Ok(())
}
