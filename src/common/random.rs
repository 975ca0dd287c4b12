//! The only source of randomness. No decision depends on it.

use ring::rand::{SecureRandom as _, SystemRandom};
use uuid::Uuid;

/// Random bytes that cannot be guessed.
///
/// # Errors
/// The system has no random bytes.
pub(crate) fn secret<const BYTES: usize>() -> Result<[u8; BYTES], String> {
    let mut secret = [0; BYTES];
    let filled = SystemRandom::new().fill(&mut secret);
    filled.map(|()| secret).map_err(|_| "the system has no random bytes to give".to_owned())
}

/// A random UUID.
#[allow(clippy::disallowed_methods, reason = "the one home of randomness")]
pub(crate) fn id() -> Uuid {
    Uuid::new_v4()
}

/// A UUID version 7: it begins with this machine's time, so that ids of neighbouring instants are neighbours.
#[allow(clippy::disallowed_methods, reason = "the one home of randomness")]
pub(crate) fn id_with_time() -> Uuid {
    Uuid::now_v7()
}

/// A random number below this one, which must not be zero: jitter for events that would otherwise coincide.
pub(crate) fn below(limit: u32) -> u32 {
    // The modulo bias is too small to matter.
    let [.., a, b, c, d] = id().into_bytes();
    u32::from_be_bytes([a, b, c, d]) % limit.max(1)
}
