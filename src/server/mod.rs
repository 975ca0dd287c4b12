//! The process: its commands, settings and logs, its start and its shutdown.

mod addresses;
pub mod args;
mod backup;
mod bounded_lines;
pub mod config;
mod descriptors;
mod failure;
mod health;
mod jwks;
mod log_queue;
mod memory;
mod migrate;
mod observe;
pub mod otlp;
mod serve;
mod signals;
mod store;
mod supervisor;
pub mod telemetry;
mod trust;
pub mod version;
