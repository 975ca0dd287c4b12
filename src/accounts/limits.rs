//! Limits of what each client may hold, computed from the settings.

use std::time::Duration;

/// Limits of each principal; zero: no limit is configured.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrincipalLimits {
    /// Maximum number of its calls in flight.
    pub calls_max: usize,
    /// Its calls a second, with items of batches counted one by one.
    pub calls_per_second: usize,
    /// Bytes of its requests in flight; zero: a quarter of the bytes of all.
    pub bytes_max: usize,
}

/// Charged to each call from its start, in addition to its headers: the memory that the server keeps for a call in flight.
/// Measured with 20,000 open calls each: 3.1 KiB for health's Watch, 5.3 for a Claim over TLS whose body has not arrived.
pub(super) const CALL_BYTES: usize = 5 * 1_024;
/// Flow-control window of a stream: bytes of a request that HTTP/2 keeps for a call that does not read them yet.
pub(crate) const STREAM_WINDOW: u32 = 128 * 1_024;
/// Charged in addition if the request is a stream: HTTP/2 fills the window while the call processes a message.
pub(crate) const STREAM_BYTES: usize = STREAM_WINDOW as usize;
/// Charged in addition to a reflection stream: its library makes up to four answers before the first one is read, each as
/// large as a file of descriptors.
pub(crate) const REFLECTION_BYTES: usize = 128 * 1_024;
/// The headers of a call, as HTTP/2 counts them: names, values, and 32 bytes for each header.
pub(crate) const HEADER_BYTES_MAX: usize = 8 * 1_024;
/// Largest charge of a call in addition to its message.
pub(crate) const CALL_OVERHEAD_MAX: usize = CALL_BYTES + HEADER_BYTES_MAX;

/// The part of a limit that all calls but settlements may take, and the part that settlements may take, in eighths.
const OTHERS_EIGHTHS: usize = 5;
const SETTLEMENTS_EIGHTHS: usize = 7;
/// Number of principals that may hold their whole share concurrently.
const SHARES: usize = 4;
/// The part of the server that all clients without a credential may hold together, and that of one address.
const STRANGERS_PART: usize = 8;
const STRANGER_PART: usize = 16;
/// The part of the server for headers and trailers of errors. Without a bound, connections that read nothing held up to 6 KiB
/// for each of 256 calls until `stall_max` was over.
const HEADERS_PART: usize = 8;
/// Bytes of a connection's answers, as a multiple of the bytes of its requests: an answer to a batch may have thirty times the
/// bytes of its request.
const CONNECTION_ANSWERS: usize = 4;

/// The bounds of all accounts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccountLimits {
    /// Bytes of requests of one connection.
    pub(crate) connection_bytes_max: usize,
    /// Bytes of requests of all connections; answers may have half as many.
    pub(crate) server_bytes_max: usize,
    /// The largest message of a request.
    pub(crate) message_bytes_max: usize,
    pub(crate) principals: PrincipalLimits,
    /// How long a message or an answer may wait without progress.
    pub(crate) stall_max: Duration,
}

/// The owner of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerKind {
    /// A principal with a name.
    Principal,
    /// All callers, where no source of identity is configured.
    Anonymous,
    /// An address: charged for health checks, and for reflection where callers are not authenticated.
    Stranger,
}

impl AccountLimits {
    /// Maximum bytes of the requests of one owner.
    pub(super) fn request_bytes_max(&self, kind: OwnerKind) -> usize {
        match kind {
            OwnerKind::Principal | OwnerKind::Anonymous if self.principals.bytes_max > 0 => {
                self.principals.bytes_max
            }
            OwnerKind::Principal => self.share(self.server_bytes_max),
            OwnerKind::Anonymous => self.server_bytes_max,
            OwnerKind::Stranger => self.server_bytes_max / STRANGER_PART,
        }
    }

    /// Maximum bytes of all answers: at least two of the largest.
    pub(super) fn answers_max(&self) -> usize {
        (self.server_bytes_max / 2).max(2 * self.message_bytes_max)
    }

    /// Maximum bytes of headers and trailers of errors that sockets have not taken, on all connections.
    pub(super) fn headers_max(&self) -> usize {
        self.server_bytes_max / HEADERS_PART
    }

    /// Maximum bytes of the answers of one owner.
    pub(super) fn answer_bytes_max(&self, kind: OwnerKind) -> usize {
        match kind {
            OwnerKind::Principal => self.share(self.answers_max()),
            OwnerKind::Anonymous => self.answers_max(),
            OwnerKind::Stranger => self.answers_max() / STRANGER_PART,
        }
    }

    /// Bytes that requests which do not arrive must free where another request finds no space: an eighth, and at least twice the
    /// largest request, since its owner must leave as much free as it takes.
    pub(super) fn room(&self) -> usize {
        (self.server_bytes_max / 8).max(2 * (self.message_bytes_max + CALL_OVERHEAD_MAX))
    }

    /// Maximum bytes of the requests of all strangers together.
    pub(super) fn strangers_request_bytes_max(&self) -> usize {
        self.server_bytes_max / STRANGERS_PART
    }

    /// Maximum bytes of the answers of one connection.
    pub(super) fn connection_answer_bytes_max(&self) -> usize {
        self.connection_bytes_max.saturating_mul(CONNECTION_ANSWERS).min(self.answers_max())
    }

    /// A principal's share of the server: at least the largest batch of claims.
    fn share(&self, all: usize) -> usize {
        let largest = (self.message_bytes_max + CALL_OVERHEAD_MAX).saturating_mul(8).div_ceil(OTHERS_EIGHTHS);
        (all / SHARES).max(largest).min(all)
    }
}

/// The part of a limit of bytes for settlements, or for all other calls.
pub(super) fn part(max: usize, settles: bool) -> usize {
    let eighths = if settles { SETTLEMENTS_EIGHTHS } else { OTHERS_EIGHTHS };
    max / 8 * eighths + (max % 8 * eighths).div_ceil(8)
}

/// The part of a limit of calls. Settlements may take all of it, since a small limit has few calls.
pub(super) fn part_of_calls(max: usize, settles: bool) -> usize {
    if settles { max } else { part(max, false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn limits(server: usize, principal: usize) -> AccountLimits {
        AccountLimits {
            connection_bytes_max: 16 * MIB,
            server_bytes_max: server,
            message_bytes_max: 3_670_016,
            principals: PrincipalLimits { bytes_max: principal, ..PrincipalLimits::default() },
            stall_max: Duration::from_secs(10),
        }
    }

    #[test]
    fn each_owner_has_its_share() {
        let batch = (3_670_016 + CALL_OVERHEAD_MAX) * 8 / 5 + 1;
        for (server, principal, kind, requests, answers) in [
            (256 * MIB, 0, OwnerKind::Principal, 64 * MIB, 32 * MIB),
            (256 * MIB, 9 * MIB, OwnerKind::Principal, 9 * MIB, 32 * MIB),
            (16 * MIB, 0, OwnerKind::Principal, batch, batch),
            (256 * MIB, 0, OwnerKind::Anonymous, 256 * MIB, 128 * MIB),
            (256 * MIB, 9 * MIB, OwnerKind::Anonymous, 9 * MIB, 128 * MIB),
            (256 * MIB, 9 * MIB, OwnerKind::Stranger, 16 * MIB, 8 * MIB),
        ] {
            let limits = limits(server, principal);
            let shares = (limits.request_bytes_max(kind), limits.answer_bytes_max(kind));
            assert_eq!(shares, (requests, answers), "{server} {principal} {kind:?}");
        }
        assert_eq!(limits(256 * MIB, 0).strangers_request_bytes_max(), 32 * MIB);
        assert_eq!(limits(256 * MIB, 0).room(), 32 * MIB);
        assert_eq!(limits(16 * MIB, 0).room(), 2 * (3_670_016 + CALL_OVERHEAD_MAX));
        assert_eq!(limits(256 * MIB, 0).connection_answer_bytes_max(), 64 * MIB);
        assert_eq!(limits(16 * MIB, 0).connection_answer_bytes_max(), 8 * MIB);
    }

    #[test]
    fn each_kind_of_call_has_its_part_of_a_limit() {
        for (max, others, settlements) in [
            (1, 1, 1),
            (2, 2, 2),
            (3, 2, 3),
            (8, 5, 7),
            (100, 63, 88),
            (usize::MAX - 7, usize::MAX / 8 * 5, usize::MAX / 8 * 7),
        ] {
            assert_eq!((part(max, false), part(max, true)), (others, settlements), "{max}");
            assert_eq!((part_of_calls(max, false), part_of_calls(max, true)), (others, max), "{max}");
        }
    }
}
