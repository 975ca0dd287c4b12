//! Protobuf messages, with three checks before one is decoded: the unpacked size of a compressed message is counted, and a
//! message with too many items, or a batch of claims for which the queue has no space, is refused before decoding it takes
//! memory.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Buf as _;
use prost::Message;
use tokio::task::futures::TaskLocalFuture;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder};
use tonic_prost::{ProstDecoder, ProstEncoder};

use super::CallAccount;
use super::fields::{FIELDS_MAX, FieldCount};
use crate::domain::{Reason, Rejection};
use crate::wire::errors;

/// A claim has 100 to 400 bytes, its answer 100.
const BUFFER_BYTES: usize = 512;
/// Encoded bytes of a stream are sent from this size on: tonic's default.
const YIELD_BYTES: usize = 32 << 10;
/// The RPC whose messages are refused before they are decoded.
const BATCH_CLAIM: &str = "BatchClaim";

tokio::task_local! {
    /// The call whose message is decoded. A stream that a separate task reads has it there, too: without it 64 imports of one
    /// principal unpacked 3.5 MB each without being counted.
    static CALL: Arc<CallAccount>;
}

/// Work whose messages count as a call's.
pub(crate) type Within<W> = TaskLocalFuture<Arc<CallAccount>, W>;

/// Runs this work so that messages which it decodes are counted for the call.
pub(crate) fn within<W: Future>(call: Arc<CallAccount>, work: W) -> Within<W> {
    CALL.scope(call, work)
}

pub(crate) struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Codec(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = CheckingDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(buffers())
    }

    fn decoder(&mut self) -> Self::Decoder {
        CheckingDecoder(ProstDecoder::new(buffers()))
    }
}

/// Each call allocates one buffer for its request and one for its answer; they grow if necessary. The default of 8 KiB each
/// costs more than what is written into it.
fn buffers() -> BufferSettings {
    BufferSettings::new(BUFFER_BYTES, YIELD_BYTES)
}

/// A decoder that checks each message before it decodes it.
pub(crate) struct CheckingDecoder<U>(ProstDecoder<U>);

impl<U: Message + Default> Decoder for CheckingDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let bytes = message.remaining();
        let counted = CALL.try_with(|call| call.take_up_to(bytes)).unwrap_or(Ok(()));
        let fields = FieldCount::of(message.chunk());
        let looked = counted
            .and_then(|()| few_fields(fields))
            .and_then(|()| CALL.try_with(|call| room_for_claims(call, fields)).unwrap_or(Ok(())));
        looked.map_err(errors::refused)?;
        self.0.decode(message)
    }
}

/// # Errors
/// `TOO_MANY_ITEMS`.
fn few_fields(fields: FieldCount) -> Result<(), Rejection> {
    if fields.all <= FIELDS_MAX {
        return Ok(());
    }
    Err(Rejection::new(
        Reason::TooManyItems,
        format!(
            "the message has more than {FIELDS_MAX} fields and items; nothing was changed: send fewer in one message"
        ),
    ))
}

/// Refuses a `BatchClaim` before it is decoded if the queue has no space for it, whichever consumers its items are of. With 32
/// batches of 1,000 in flight, on `SQLite`, a refused item cost the server 5.5 to 6.7 us when it was decoded first, and costs
/// 0.9 to 1.0 now; a served claim costs 15 to 21. A settlement is always decoded: a queue that refuses claims accepts it.
///
/// # Errors
/// `OVERLOADED`.
fn room_for_claims(call: &CallAccount, fields: FieldCount) -> Result<(), Rejection> {
    if call.rpc() != BATCH_CLAIM || !fields.whole {
        return Ok(());
    }
    let server = &call.connection().server;
    let room = (server.room_for_claims)(fields.items);
    room.inspect_err(|refused| server.metrics.all_refused(refused, fields.items))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_too_many_fields_is_refused() {
        assert!(few_fields(FieldCount::of(&[10, 0].repeat(FIELDS_MAX))).is_ok());
        let refused =
            few_fields(FieldCount::of(&[10, 0].repeat(FIELDS_MAX + 1))).map_err(|refused| refused.reason);
        assert_eq!(refused, Err(Reason::TooManyItems));
        // A group that the decoder skips hides no fields.
        let hidden = [&[0x2b, 0x2c][..], &[10, 0].repeat(FIELDS_MAX)].concat();
        assert!(few_fields(FieldCount::of(&hidden)).is_err());
    }
}
