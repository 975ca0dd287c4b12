//! Randomness: its one home. Nothing that is decided depends on it.

use ring::rand::{SecureRandom as _, SystemRandom};
use uuid::Uuid;

/// So many bytes that nobody can guess.
///
/// # Errors
/// The system has none to give.
pub(crate) fn secret<const BYTES: usize>() -> Result<[u8; BYTES], String> {
    let mut secret = [0; BYTES];
    let filled = SystemRandom::new().fill(&mut secret);
    filled.map(|()| secret).map_err(|_| "the system has no random bytes to give".to_owned())
}

/// An id that nobody else has.
#[allow(clippy::disallowed_methods, reason = "the one home of randomness")]
pub(crate) fn id() -> Uuid {
    Uuid::new_v4()
}

/// An id that nobody else has and that begins with this machine's time, so that ids of neighbouring instants are
/// neighbours (UUID version 7).
#[allow(clippy::disallowed_methods, reason = "the one home of randomness")]
pub(crate) fn id_with_time() -> Uuid {
    Uuid::now_v7()
}

/// A number below this one, which is not zero: to spread what would happen at once.
pub(crate) fn below(limit: u32) -> u32 {
    // The quotient is less than any bias that could matter.
    let [.., a, b, c, d] = id().into_bytes();
    u32::from_be_bytes([a, b, c, d]) % limit.max(1)
}
