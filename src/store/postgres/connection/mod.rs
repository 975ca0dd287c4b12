//! How a server of the ledger reaches Postgres: the URL and its sources, the servers of one database, connections, sessions
//! and their rotation, and what a session that was given up leaves behind.

mod backend;
pub(super) mod connect;
mod environment;
pub(super) mod link;
mod lost_commits;
pub(super) mod opener;
pub(super) mod orphans;
mod place;
pub(super) mod rotation;
mod rotation_counts;
pub(super) mod servers;
pub(super) mod session;
pub(super) mod source;
mod transport;
mod url;
mod url_options;
mod url_tls;
