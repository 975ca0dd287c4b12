//! Connections to Postgres: the URL and its sources, the servers of one database, sessions and their rotation, orphaned
//! backends, and the detection of lost commits.

mod backend;
pub(super) mod connect;
mod environment;
pub(super) mod link;
mod lost_commits;
pub(super) mod opener;
pub(super) mod orphans;
pub(super) mod rotation;
mod rotation_counts;
pub(super) mod servers;
pub(super) mod session;
pub(super) mod source;
mod target;
mod transport;
mod url;
mod url_options;
mod url_tls;
