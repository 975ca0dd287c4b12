//! Every setting, declared once.

use std::net::SocketAddr;

use serde::Deserialize;

use super::admin_listen::AdminListen;
use super::file_path::FilePath;
use super::given::Given;
use super::local_listen::{HttpListen, ObserveListen};
use crate::common::duration_arg::DurationArg;
use crate::store::SchemaName;

/// Every setting of a server that flags, the environment and the top level of the file share.
#[derive(Clone, Debug, Default, Deserialize, clap::Args)]
#[serde(deny_unknown_fields, default)]
#[group(skip)]
#[allow(clippy::doc_markdown, rustdoc::bare_urls, reason = "each text is also its flag's help")]
pub struct Settings {
    /// Where to listen [default: 127.0.0.1:50051]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_LISTEN", value_name = "ADDRESS")]
    pub listen: Option<Given<SocketAddr>>,
    /// Where operators are served: AdminService is only there then, and not at `listen`; without it at `listen` [default: none]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_ADMIN_LISTEN", value_name = "ADDRESS")]
    pub admin_listen: Option<Given<AdminListen>>,
    /// Where the services are served by HTTP, without gRPC (the Connect protocol: JSON and protobuf, HTTP/1.1 and HTTP/2),
    /// AdminService only where admin_listen is not set; off: nowhere [default: 127.0.0.1:50080]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_HTTP_LISTEN", value_name = "ADDRESS")]
    pub http_listen: Option<Given<HttpListen>>,
    /// Where AdminService is served by HTTP, for operators with an admin_listen [default: none]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_ADMIN_HTTP_LISTEN", value_name = "ADDRESS")]
    pub admin_http_listen: Option<Given<AdminListen>>,
    /// The host names by which HTTP may be called while callers are anonymous, besides IP addresses and localhost,
    /// separated by commas [default: none]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_HTTP_HOSTS", value_name = "LIST")]
    pub http_hosts: Option<String>,
    /// Whether gRPC reflection is offered [default: true]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_REFLECTION", value_name = "BOOL")]
    pub reflection: Option<Given<bool>>,
    /// Where the plain HTTP port listens that serves /metrics, /livez and /readyz; off: nowhere
    /// [default: 127.0.0.1:9464]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_OBSERVE_LISTEN", value_name = "ADDRESS")]
    pub observe_listen: Option<Given<ObserveListen>>,
    /// The server's certificate, and those between it and its authority's, as PEM: the server speaks TLS alone then
    /// [default: none]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_LISTEN_TLS_CERT", value_name = "FILE")]
    pub listen_tls_cert: Option<Given<FilePath>>,
    /// The private key of that certificate, as PEM [default: none]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_LISTEN_TLS_KEY", value_name = "FILE")]
    pub listen_tls_key: Option<Given<FilePath>>,
    /// The authorities that sign clients' certificates, as PEM: a client's certificate names its principal then
    /// [default: none]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_LISTEN_TLS_CLIENT_CA", value_name = "FILE")]
    pub listen_tls_client_ca: Option<Given<FilePath>>,
    /// Their revocation lists, as PEM: one of each authority in a chain [default: none]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_LISTEN_TLS_CLIENT_CRL", value_name = "FILE")]
    pub listen_tls_client_crl: Option<Given<FilePath>>,
    /// The hashes of bearer tokens, by the names of their holders; `rights token` makes one [default: none]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_TOKENS_FILE", value_name = "FILE")]
    pub tokens_file: Option<Given<FilePath>>,
    /// Which principal may do what, for which consumers; what no line allows is refused [default: none]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_RIGHTS_FILE", value_name = "FILE")]
    pub rights_file: Option<Given<FilePath>>,
    /// How often the keys of an issuer of JSON web tokens are fetched from its jwks_url, 10s to 1h [default: 5m]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_JWKS_REFRESH", value_name = "DURATION")]
    pub jwks_refresh: Option<Given<DurationArg>>,
    /// How long the last keys of an issuer stay in force while none can be fetched, 1m to 30d [default: 1d]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_JWKS_KEEP", value_name = "DURATION")]
    pub jwks_keep: Option<Given<DurationArg>>,
    /// The proxies whose x-forwarded-client-cert is believed: addresses, networks, and names of their certificates like
    /// spiffe://mesh/gateway or dns:gateway.example, separated by commas [default: none]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_TRUSTED_PROXIES", value_name = "LIST")]
    pub trusted_proxies: Option<String>,
    /// Listen beyond loopback although callers are not authenticated [default: false]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_INSECURE_ANONYMOUS", value_name = "BOOL")]
    pub insecure_anonymous: Option<Given<bool>>,
    /// Where the ledger lives: sqlite://FILE or postgres://USER:PASSWORD@HOST/DATABASE; a flag shows its password in
    /// the list of processes, so keep that in a file
    /// [default: sqlite://data/ledger.db]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: Option<String>,
    /// A file with database_url, read again for each connection, so that user and password can change without a restart, or none
    /// [default: none]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_DATABASE_URL_FILE", value_name = "FILE")]
    pub database_url_file: Option<Given<FilePath>>,
    /// A file with the user, if the URL of Postgres does not have one, read again for each connection, or none
    /// [default: none]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_DATABASE_USER_FILE", value_name = "FILE")]
    pub database_user_file: Option<Given<FilePath>>,
    /// A file with the password, if the URL of Postgres does not have one, read again for each connection, or none
    /// [default: none]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_DATABASE_PASSWORD_FILE", value_name = "FILE")]
    pub database_password_file: Option<Given<FilePath>>,
    /// Which schema of the Postgres database holds the ledger, for servers and `migrate`: up to 63 lower-case letters, digits
    /// and `_`, the first not a digit [default: ledger]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_SCHEMA", value_name = "NAME")]
    pub schema: Option<Given<SchemaName>>,
    /// How long a connection to Postgres is used, give or take a tenth, before it is replaced; 0s: for ever, 10s to 1d
    /// [default: 30m]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_MAX_CONNECTION_LIFETIME", value_name = "DURATION")]
    pub max_connection_lifetime: Option<Given<DurationArg>>,
    /// How many Postgres connections carry claims and settlements, 1 to 32 [default: 3]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_SESSIONS", value_name = "N")]
    pub sessions: Option<Given<usize>>,
    /// How many threads serve calls; 0: one for every two processors, at least two, 0 to 256 [default: 0]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_THREADS", value_name = "N")]
    pub threads: Option<Given<usize>>,
    /// How long claims and settlements wait for a row that another session of the database holds, 10ms to 1s
    /// [default: 250ms]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_LOCK_WAIT", value_name = "DURATION")]
    pub lock_wait: Option<Given<DurationArg>>,
    /// Whether prepared statements have names [default: true]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_PREPARED_STATEMENTS", value_name = "BOOL")]
    pub prepared_statements: Option<Given<bool>>,
    /// Whether a pooler gives each transaction another connection, as PgBouncer does in transaction mode: each
    /// statement takes four round trips then [default: false]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_TRANSACTION_POOLING", value_name = "BOOL")]
    pub transaction_pooling: Option<Given<bool>>,
    /// How long to wait for the store at the start, at most 10m [default: 10s]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_STARTUP_WAIT", value_name = "DURATION")]
    pub startup_wait: Option<Given<DurationArg>>,
    /// How many commands may wait in memory, 16 to 1000000 [default: 8192]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_QUEUE_MAX", value_name = "N")]
    pub queue_max: Option<Given<usize>>,
    /// How many bytes the commands that wait or are at work may have, 1048576 to 1099511627776
    /// [default: 67108864]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_QUEUE_BYTES_MAX", value_name = "N")]
    pub queue_bytes_max: Option<Given<usize>>,
    /// How many commands one batch takes to the store, 1 to 1000 [default: 1000]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_BATCH_MAX", value_name = "N")]
    pub batch_max: Option<Given<usize>>,
    /// How many client connections may be open concurrently, 1 to 1000000 [default: 10000]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CONNECTIONS_MAX", value_name = "N")]
    pub connections_max: Option<Given<usize>>,
    /// How many of them one address may have, or one /64 network of IPv6; 0: as many as may be open, 0 to 1000000
    /// [default: 5000]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CONNECTIONS_PER_ADDRESS_MAX", value_name = "N")]
    pub connections_per_address_max: Option<Given<usize>>,
    /// How long a connection may be without a call before it ends; 0s: for ever, 1s to 1d [default: 15m]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CONNECTION_IDLE_MAX", value_name = "DURATION")]
    pub connection_idle_max: Option<Given<DurationArg>>,
    /// How long a connection may be open, give or take a tenth, before it ends without losing a call; 0s: for ever,
    /// 1s to 7d [default: 0s]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CONNECTION_AGE_MAX", value_name = "DURATION")]
    pub connection_age_max: Option<Given<DurationArg>>,
    /// How long an import or a bulk redrive goes on after that, at most 7d [default: 1h]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CONNECTION_AGE_GRACE", value_name = "DURATION")]
    pub connection_age_grace: Option<Given<DurationArg>>,
    /// How many calls each principal may have under way; 0: any number, 0 to 1000000 [default: 0]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_PRINCIPAL_CALLS_MAX", value_name = "N")]
    pub principal_calls_max: Option<Given<usize>>,
    /// How many calls a second each principal may make, items of batches counted one by one; 0: any number,
    /// 0 to 1000000 [default: 0]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_PRINCIPAL_CALLS_PER_SECOND", value_name = "N")]
    pub principal_calls_per_second: Option<Given<usize>>,
    /// How many bytes the requests under way of each principal may have; 0: a quarter of server_bytes_max, 0 to 1099511627776
    /// [default: 0]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_PRINCIPAL_BYTES_MAX", value_name = "N")]
    pub principal_bytes_max: Option<Given<usize>>,
    /// How many bytes the requests under way of one connection may have, 65536 to 1073741824
    /// [default: 16777216]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CONNECTION_BYTES_MAX", value_name = "N")]
    pub connection_bytes_max: Option<Given<usize>>,
    /// How many bytes the requests under way of all connections may have, and half as many the answers that are not read, 65536
    /// to 1099511627776 [default: 268435456]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_SERVER_BYTES_MAX", value_name = "N")]
    pub server_bytes_max: Option<Given<usize>>,
    /// How long a message of a request may take to arrive, or an answer may wait to be read, before the call is ended; what
    /// goes on at 1 KiB a second or more has longer, 1s to 10m [default: 10s]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_STALL_MAX", value_name = "DURATION")]
    pub stall_max: Option<Given<DurationArg>>,
    /// The deadline of calls that bring none, and the longest of any, 100ms to 10m [default: 30s]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_DEADLINE_MAX", value_name = "DURATION")]
    pub deadline_max: Option<Given<DurationArg>>,
    /// How long a call may wait for another verdict, where it asks to; 0s: none waits. A route or a proxy before the server
    /// needs a longer timeout, at most 1m [default: 10s]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_MAX_WAIT", value_name = "DURATION")]
    pub max_wait: Option<Given<DurationArg>>,
    /// The log reports calls that take at least this long, 1ms to 10m [default: 1s]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_SLOW_CALL", value_name = "DURATION")]
    pub slow_call: Option<Given<DurationArg>>,
    /// Whether the log contains the error texts of consumers, for messages that wait for a person [default: false]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_LOG_ERROR_TEXTS", value_name = "BOOL")]
    pub log_error_texts: Option<Given<bool>>,
    /// How long to go on serving after SIGTERM while health checks report NOT_SERVING, at most 10m [default: 5s]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_DRAIN_WAIT", value_name = "DURATION")]
    pub drain_wait: Option<Given<DurationArg>>,
    /// How long calls under way may take after that, at most 10m [default: 15s]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_DRAIN_MAX", value_name = "DURATION")]
    pub drain_max: Option<Given<DurationArg>>,
    /// Grant only to consumers that have their own policy [default: false]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_REQUIRE_REGISTRATION", value_name = "BOOL")]
    pub require_registration: Option<Given<bool>>,
    /// Refuse a SetPolicy whose policy does not state max_redelivery_window [default: false]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_REQUIRE_REDELIVERY_WINDOW", value_name = "BOOL")]
    pub require_redelivery_window: Option<Given<bool>>,
    /// How often the purge looks for entries whose retention is over; the same on all servers, 100ms to 1d [default: 10s]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_PURGE_EVERY", value_name = "DURATION")]
    pub purge_every: Option<Given<DurationArg>>,
    /// The sessions on which messages are stored and handed out, separate from those for claims, 1 to 100 [default: 1]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_INBOX_SESSIONS", value_name = "N")]
    pub inbox_sessions: Option<Given<usize>>,
    /// Bytes of all stored messages, from which on no more are stored, 1048576 to 1125899906842624 [default: 10737418240]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_INBOX_BYTES_MAX", value_name = "BYTES")]
    pub inbox_bytes_max: Option<Given<usize>>,
    /// How many entries the purge looks at in one batch, 1 to 1000 [default: 500]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_PURGE_BATCH", value_name = "N")]
    pub purge_batch: Option<Given<usize>>,
    /// How often the entries are counted for /metrics, 1s to 1d [default: 1m]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_COUNT_EVERY", value_name = "DURATION")]
    pub count_every: Option<Given<DurationArg>>,
    /// How long audit events of operators' changes are kept, 1d to 3650d [default: 365d]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_AUDIT_RETENTION", value_name = "DURATION")]
    pub audit_retention: Option<Given<DurationArg>>,
    /// The longest `consumer`, in bytes, at most 1024 [default: 128]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CONSUMER_BYTES_MAX", value_name = "N")]
    pub consumer_bytes_max: Option<Given<usize>>,
    /// The longest `source`, in bytes, at most 1024 [default: 256]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_SOURCE_BYTES_MAX", value_name = "N")]
    pub source_bytes_max: Option<Given<usize>>,
    /// The longest `id`, in bytes, at most 4096 [default: 512]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_ID_BYTES_MAX", value_name = "N")]
    pub id_bytes_max: Option<Given<usize>>,
    /// The longest `owner`, in bytes, at most 1024 [default: 128]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_OWNER_BYTES_MAX", value_name = "N")]
    pub owner_bytes_max: Option<Given<usize>>,
    /// The longest `fingerprint`, in bytes, at most 256 [default: 64]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_FINGERPRINT_BYTES_MAX", value_name = "N")]
    pub fingerprint_bytes_max: Option<Given<usize>>,
    /// Longer errors are truncated, in bytes, 64 to 65536 [default: 2048]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_ERROR_BYTES_MAX", value_name = "N")]
    pub error_bytes_max: Option<Given<usize>>,
    /// The largest `result`, in bytes, at most 1048576 [default: 16384]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_RESULT_BYTES_MAX", value_name = "N")]
    pub result_bytes_max: Option<Given<usize>>,
    /// The largest `checkpoint`, in bytes, at most 1048576 [default: 16384]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CHECKPOINT_BYTES_MAX", value_name = "N")]
    pub checkpoint_bytes_max: Option<Given<usize>>,
    /// How many items a batch may have, at most 1000 [default: 1000]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_BATCH_ITEMS_MAX", value_name = "N")]
    pub batch_items_max: Option<Given<usize>>,
    /// The largest request and batch answer, in bytes, at most 16777216 [default: 3670016]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_BATCH_BYTES_MAX", value_name = "N")]
    pub batch_bytes_max: Option<Given<usize>>,
}

macro_rules! first {
    ($upper:ident, $lower:ident; $($field:ident),* $(,)?) => {
        Settings { $($field: $upper.$field.or($lower.$field)),* }
    };
}

impl Settings {
    /// Each setting from here, or else from there.
    pub(super) fn or(self, lower: Settings) -> Settings {
        let upper = self;
        first!(upper, lower; listen, admin_listen, http_listen, admin_http_listen, http_hosts, reflection, observe_listen, listen_tls_cert, listen_tls_key, listen_tls_client_ca,
            listen_tls_client_crl, tokens_file, rights_file, jwks_refresh, jwks_keep, trusted_proxies, insecure_anonymous, database_url, database_url_file, database_user_file,
            database_password_file, schema, max_connection_lifetime, sessions, threads, lock_wait, prepared_statements, transaction_pooling,
            startup_wait, queue_max, queue_bytes_max, batch_max, connections_max, connections_per_address_max,
            connection_idle_max, connection_age_max, connection_age_grace, principal_calls_max,
            principal_calls_per_second, principal_bytes_max, connection_bytes_max,
            server_bytes_max, stall_max, deadline_max, max_wait, slow_call, log_error_texts, drain_wait, drain_max, require_registration, require_redelivery_window, inbox_sessions, inbox_bytes_max, purge_every, purge_batch, count_every,
            audit_retention,
            consumer_bytes_max, source_bytes_max, id_bytes_max, owner_bytes_max, fingerprint_bytes_max,
            error_bytes_max, result_bytes_max, checkpoint_bytes_max, batch_items_max, batch_bytes_max)
    }
}
