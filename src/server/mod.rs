//! The process: what is typed to run it, its settings, its logs, its start and its end.

pub mod args;
pub mod commands;
pub mod config;
mod descriptors;
pub mod telemetry;
