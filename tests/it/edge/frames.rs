//! Frames of HTTP/2 as bytes, for clients that do what no library would; and calls of gRPC without its library.

use prost::Message;

/// A frame of this type, with these flags, of this stream.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const CONTINUATION: u8 = 9;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// The header block of a Claim: POST, http, the path and the content type.
pub(super) fn head() -> Vec<u8> {
    head_of(b"/idempotency.ledger.v1.LedgerService/Claim")
}

/// The same of another call.
fn head_of(path: &[u8]) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    block.extend([0x04, u8::try_from(path.len()).unwrap()]);
    block.extend(path);
    block.extend([0x0f, 0x10, 16]);
    block.extend(b"application/grpc");
    block
}

/// A header that is kept in no table.
pub(super) fn header(name: &str, value: &[u8]) -> Vec<u8> {
    assert!(name.len() < 127 && value.len() < 127, "a length of one byte");
    let mut field = vec![0, u8::try_from(name.len()).unwrap()];
    field.extend(name.as_bytes());
    field.push(u8::try_from(value.len()).unwrap());
    field.extend(value);
    field
}

/// A whole call of Claim, with this body.
pub(super) fn call(stream: u32, body: &[u8]) -> Vec<u8> {
    call_of(b"/idempotency.ledger.v1.LedgerService/Claim", stream, body)
}

/// The same of another one.
pub(super) fn call_of(path: &[u8], stream: u32, body: &[u8]) -> Vec<u8> {
    [frame(HEADERS, END_HEADERS, stream, &head_of(path)), frame(DATA, END_STREAM, stream, body)].concat()
}

/// The head of a Claim.
pub(super) fn post() -> http::Request<()> {
    http::Request::post("http://x/idempotency.ledger.v1.LedgerService/Claim")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap()
}

/// A message as gRPC sends it.
pub(crate) fn message(message: &impl Message) -> Vec<u8> {
    let payload = message.encode_to_vec();
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// So many bytes of zeros as gzip: pairs of a length of 258 and a distance of one, with the fixed codes.
pub(super) fn bomb(unpacked: usize) -> Vec<u8> {
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let (mut room, mut used) = (0_u64, 0);
    let mut put = |bits: &[u8]| {
        for bit in bits {
            room |= u64::from(*bit) << used;
            used += 1;
            if used == 8 {
                bytes.push(room as u8);
                (room, used) = (0, 0);
            }
        }
    };
    // The last block, of fixed codes; then one zero.
    put(&[1, 1, 0]);
    put(&[0, 0, 1, 1, 0, 0, 0, 0]);
    for _ in 0..unpacked / 258 {
        put(&[1, 1, 0, 0, 0, 1, 0, 1]);
        put(&[0, 0, 0, 0, 0]);
    }
    put(&[0; 7]);
    put(&[0; 8]);
    // What comes behind is looked at only at the end, which nobody waits for.
    bytes.extend([0; 8]);
    bytes
}
