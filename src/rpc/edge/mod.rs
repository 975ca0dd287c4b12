//! What every call passes before its own RPC: the connection, the bounds of memory and time, authentication,
//! and the limits of its principal; and the server's health.

pub(super) mod auth;
pub(super) mod health;
pub(super) mod layer;
pub(super) mod methods;
pub(super) mod services;
pub(super) mod waits;
