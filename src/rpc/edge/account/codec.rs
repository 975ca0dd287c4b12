//! Messages as protobuf, with two looks before one is decoded: what a compressed message is unpacked counts
//! too, and a message of far more items than any may have is not unfolded into memory only to be refused.

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
use crate::domain::{Reason, Rejection};

/// A claim has 100 to 400 bytes, its answer 100.
const BUFFER_BYTES: usize = 512;
/// From which size on what was encoded of a stream is sent: the default.
const YIELD_BYTES: usize = 32 << 10;
/// More than any message has: a batch of the most items that can be configured has 1,000.
const FIELDS_MAX: usize = 4_096;

tokio::task_local! {
    /// The call whose message is decoded. A stream that is read in its own task has it there, too: without it 64 imports of a
    /// principal unpacked 3.5 MB each that counted nowhere.
    static CALL: Arc<CallAccount>;
}

/// Work whose messages count as a call's.
pub(in crate::rpc) type Within<W> = TaskLocalFuture<Arc<CallAccount>, W>;

/// Lets messages that this work decodes count as the call's.
pub(in crate::rpc) fn within<W: Future>(call: Arc<CallAccount>, work: W) -> Within<W> {
    CALL.scope(call, work)
}

pub(in crate::rpc) struct Codec<T, U>(PhantomData<(T, U)>);

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
    type Decoder = Looking<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(buffers())
    }

    fn decoder(&mut self) -> Self::Decoder {
        Looking(ProstDecoder::new(buffers()))
    }
}

/// Each call has one for its request and one for its answer, whole from the start; they grow where that is not
/// enough. The default, 8 KiB each, costs more than what is written into it.
fn buffers() -> BufferSettings {
    BufferSettings::new(BUFFER_BYTES, YIELD_BYTES)
}

/// A decoder that looks before it decodes.
pub(in crate::rpc) struct Looking<U>(ProstDecoder<U>);

impl<U: Message + Default> Decoder for Looking<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let bytes = message.remaining();
        let counted = CALL.try_with(|call| call.take_up_to(bytes)).unwrap_or(Ok(()));
        let looked = counted.and_then(|()| few_fields(message.chunk()));
        looked.map_err(Status::from)?;
        self.0.decode(message)
    }
}

/// # Errors
/// `TOO_MANY_ITEMS`.
fn few_fields(message: &[u8]) -> Result<(), Rejection> {
    if fields(message) <= FIELDS_MAX {
        return Ok(());
    }
    Err(Rejection::new(
        Reason::TooManyItems,
        format!(
            "the message has more than {FIELDS_MAX} fields and items; nothing was changed: send fewer at once"
        ),
    ))
}

/// How many fields and items a message has, nested ones left out. What cannot be read ends the count: the
/// decoder says what is wrong with it.
fn fields(mut message: &[u8]) -> usize {
    let mut count = 0;
    while count <= FIELDS_MAX && skip(&mut message).is_some() {
        count += 1;
    }
    count
}

/// Leaves one field behind.
fn skip(message: &mut &[u8]) -> Option<()> {
    let bytes = match varint(message)? & 7 {
        0 => return varint(message).map(drop),
        1 => 8,
        2 => usize::try_from(varint(message)?).ok()?,
        5 => 4,
        _ => return None,
    };
    *message = message.get(bytes..)?;
    Some(())
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    prost::encoding::decode_varint(message).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_without_decoding() {
        // 1: a number, 2: three bytes, 3: fixed 64, 4: fixed 32, and two empty items.
        let message = [8, 150, 1, 18, 3, 9, 9, 9, 25, 1, 2, 3, 4, 5, 6, 7, 8, 37, 1, 2, 3, 4, 42, 0, 42, 0];
        assert_eq!(fields(&message), 6);
        assert_eq!(fields(&[]), 0);
        assert_eq!(fields(&[8, 1, 18, 200, 1]), 1, "cut off");
        assert_eq!(fields(&[0xff; 40]), 0, "no message");
        assert!(few_fields(&[10, 0].repeat(FIELDS_MAX)).is_ok());
        let refused = few_fields(&[10, 0].repeat(FIELDS_MAX + 1)).map_err(|rejection| rejection.reason);
        assert_eq!(refused, Err(Reason::TooManyItems));
    }
}
