//! The bytes of a connection: with TLS or without, read within a poll budget, written in few packets.

#[cfg(test)]
mod any_split;
pub(super) mod keepalive;
pub(super) mod stream;
pub(super) mod tls_or_tcp;
pub(super) mod write_buffer;
