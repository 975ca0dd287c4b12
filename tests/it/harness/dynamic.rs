//! Calls by their descriptors: for tables that must have a row for each RPC with some field, future ones too.

use std::sync::LazyLock;

use idempotency_ledger::rpc::proto::FILE_DESCRIPTOR_SET;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::raw;

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap());

/// An RPC of the package.
pub(crate) struct Rpc(MethodDescriptor);

impl Rpc {
    /// Those whose request has one of these fields.
    pub(crate) fn with_field(names: &[&str]) -> Vec<Rpc> {
        let ours = POOL.services().filter(|service| service.package_name() == "idempotency.ledger.v1");
        let methods = ours.flat_map(|service| service.methods().collect::<Vec<_>>());
        let has =
            |rpc: &MethodDescriptor| names.iter().any(|name| rpc.input().get_field_by_name(name).is_some());
        methods.filter(has).map(Rpc).collect()
    }

    pub(crate) fn name(&self) -> &str {
        self.0.name()
    }

    /// Its request, in canonical JSON.
    pub(crate) fn request(&self, json: &serde_json::Value) -> DynamicMessage {
        DynamicMessage::deserialize(self.0.input(), json).unwrap_or_else(|error| panic!("{json}: {error}"))
    }

    /// All answers, one that is no stream too. With a token the holder's.
    pub(crate) async fn call(
        &self,
        channel: &Channel,
        token: Option<&str>,
        request: &DynamicMessage,
    ) -> Result<Vec<DynamicMessage>, Status> {
        let method = format!("{}/{}", self.0.parent_service().name(), self.name());
        let mut call = Request::new(request.encode_to_vec());
        if let Some(token) = token {
            call.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        let answers = raw::answers(channel, &method, call).await?;
        let decoded =
            answers.iter().map(|bytes| DynamicMessage::decode(self.0.output(), &bytes[..]).unwrap());
        Ok(decoded.collect())
    }
}
