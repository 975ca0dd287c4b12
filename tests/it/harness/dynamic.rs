//! Calls by their descriptors: for tables that must have a row for each RPC with some field, future ones too.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use idempotency_ledger::proto::FILE_DESCRIPTOR_SET;
use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    ReflectMessage as _, Value,
};
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

    /// The first of these fields that its request has.
    pub(crate) fn field(&self, names: &[&'static str]) -> &'static str {
        names.iter().find(|name| self.0.input().get_field_by_name(name).is_some()).unwrap()
    }

    /// Its request, in canonical JSON.
    pub(crate) fn request(&self, json: &serde_json::Value) -> DynamicMessage {
        DynamicMessage::deserialize(self.0.input(), json).unwrap_or_else(|error| panic!("{json}: {error}"))
    }

    /// Its request, from its bytes.
    pub(crate) fn decode(&self, bytes: &[u8]) -> DynamicMessage {
        DynamicMessage::decode(self.0.input(), bytes).unwrap()
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

fn message_of_ours(name: &str) -> MessageDescriptor {
    POOL.get_message_by_name(&format!("idempotency.ledger.v1.{name}")).unwrap()
}

/// The names of all fields of a message of the package.
pub(crate) fn fields(name: &str) -> BTreeSet<String> {
    message_of_ours(name).fields().map(|field| field.name().to_owned()).collect()
}

/// The names of the fields that are set in a message of the package.
pub(crate) fn fields_set(name: &str, bytes: &[u8]) -> BTreeSet<String> {
    let message = DynamicMessage::decode(message_of_ours(name), bytes).unwrap();
    message.fields().map(|(field, _)| field.name().to_owned()).collect()
}

/// The message with each of its fields changed once, those of the messages in it too, by their paths. Lists of messages
/// are left out.
pub(crate) fn each_field_changed(message: &DynamicMessage) -> Vec<(String, DynamicMessage)> {
    let mut all = Vec::new();
    for field in message.descriptor().fields() {
        let value = message.get_field(&field).into_owned();
        let name = field.name().to_owned();
        let changed: Vec<(String, Value)> = match (field.kind(), value) {
            (Kind::Message(_), Value::List(_)) => Vec::new(),
            (Kind::Message(kind), Value::Message(value)) if kind.package_name() == "google.protobuf" => {
                vec![(name, Value::Message(other_of_google(&kind, value)))]
            }
            (Kind::Message(_), Value::Message(value)) => each_field_changed(&value)
                .into_iter()
                .map(|(path, value)| (format!("{name}.{path}"), Value::Message(value)))
                .collect(),
            (_, value) => vec![(name, other(&field, value))],
        };
        for (path, value) in changed {
            let mut message = message.clone();
            message.set_field(&field, value);
            all.push((path, message));
        }
    }
    all
}

/// Another value of a field, in most its default where it was not set.
fn other(field: &FieldDescriptor, value: Value) -> Value {
    let number = |number: i32| if number == 1 { 2 } else { 1 };
    match value {
        Value::Bool(value) => Value::Bool(!value),
        Value::I32(value) => Value::I32(value + 1),
        Value::I64(value) => Value::I64(value + 1),
        Value::F64(value) => Value::F64(value + 1.0),
        Value::EnumNumber(value) => Value::EnumNumber(number(value)),
        Value::String(value) => Value::String(value + "x"),
        Value::Bytes(value) => Value::Bytes([&value[..], b"x"].concat().into()),
        Value::List(values) => {
            let first = values.first().and_then(Value::as_enum_number).unwrap_or_default();
            Value::List(vec![Value::EnumNumber(number(first))])
        }
        value => panic!("{}: nothing is known of {value:?}", field.full_name()),
    }
}

fn other_of_google(kind: &MessageDescriptor, mut value: DynamicMessage) -> DynamicMessage {
    match kind.name() {
        "Duration" | "Timestamp" => {
            let seconds = value.get_field_by_name("seconds").unwrap().as_i64().unwrap();
            value.set_field_by_name("seconds", Value::I64(seconds + 1));
        }
        "FieldMask" => value.set_field_by_name("paths", Value::List(vec![Value::String("disabled".into())])),
        name => panic!("nothing is known of {name}"),
    }
    value
}
