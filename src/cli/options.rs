//! The options that all commands share: the server and how to connect to it, the contexts, and the form of
//! the answer.

use std::path::PathBuf;

use clap::Args;

use super::output::{Color, Output};
use crate::common::duration_arg::DurationArg;

/// How to reach the server, and how to answer.
#[derive(Args, Clone, Default)]
#[group(skip)]
pub(crate) struct Options {
    /// The server: http://HOST:PORT, https://HOST:PORT, or HOST:PORT; no context is used then [default: the
    /// context's, else http://127.0.0.1:50051; `bench` starts a separate one]
    #[arg(
        long,
        visible_alias = "server",
        global = true,
        env = "IDEMPOTENCY_LEDGER_ENDPOINT",
        value_name = "URL",
        help_heading = "Server"
    )]
    #[allow(clippy::doc_markdown, rustdoc::bare_urls, reason = "it is also the option's help")]
    pub(crate) endpoint: Option<String>,
    /// The context that names the server and how to reach it [default: the current one, see `context list`]
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_CONTEXT",
        value_name = "NAME",
        help_heading = "Server"
    )]
    pub(crate) context: Option<String>,
    #[command(flatten)]
    pub(crate) contexts: ContextsFile,
    /// The authority that signed the server's certificate, as PEM [default: the system's, and Mozilla's]
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_TLS_CA",
        value_name = "FILE",
        help_heading = "Server"
    )]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Your own certificate, as PEM, where the server asks for one
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_TLS_CERT",
        value_name = "FILE",
        help_heading = "Server"
    )]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key, as PEM
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_TLS_KEY",
        value_name = "FILE",
        help_heading = "Server"
    )]
    pub(crate) tls_key: Option<PathBuf>,
    /// The name that the server's certificate must have [default: the endpoint's host]
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_TLS_DOMAIN",
        value_name = "NAME",
        help_heading = "Server"
    )]
    pub(crate) tls_domain: Option<String>,
    /// Your token; other users of this machine may see it: prefer the two other ways
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        help_heading = "Server"
    )]
    pub(crate) token: Option<String>,
    /// A file with the token
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_TOKEN_FILE",
        value_name = "FILE",
        help_heading = "Server"
    )]
    pub(crate) token_file: Option<PathBuf>,
    /// Also send the token over http:// to another machine, where something else encrypts the connection
    #[arg(long, global = true, env = "IDEMPOTENCY_LEDGER_PLAINTEXT_TOKEN", help_heading = "Server")]
    #[allow(rustdoc::bare_urls, reason = "it is also the option's help")]
    pub(crate) plaintext_token: bool,
    /// How long to wait for each answer [default: the context's, else 30s]
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_TIMEOUT",
        value_name = "DURATION",
        help_heading = "Server"
    )]
    pub(crate) timeout: Option<DurationArg>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl Options {
    /// Whether neither a flag nor a variable names a server: a current context may, but it was not named for
    /// this command.
    pub(crate) fn names_no_server(&self) -> bool {
        self.endpoint.is_none() && self.context.is_none()
    }
}

/// The path of the contexts file.
#[derive(Args, Clone, Default)]
#[group(skip)]
pub(crate) struct ContextsFile {
    /// The contexts file [default: idempotency-ledger/contexts.toml in `XDG_CONFIG_HOME`, else in ~/.config]
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_CONTEXTS",
        value_name = "FILE",
        help_heading = "Server"
    )]
    pub(crate) contexts_file: Option<PathBuf>,
}

/// The form of the answer.
#[derive(Args, Clone, Default)]
#[group(skip)]
pub(crate) struct OutputArgs {
    /// Answer as canonical proto3 JSON: one document, or one a line where there are many
    #[arg(long, global = true, env = "IDEMPOTENCY_LEDGER_JSON", help_heading = "Output")]
    json: bool,
    /// Tables at their full width; otherwise long names are shortened to fit the terminal
    #[arg(long, global = true, help_heading = "Output")]
    wide: bool,
    /// Colours; `auto` uses them on a terminal unless `NO_COLOR` is set
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_COLOR",
        default_value = "auto",
        value_name = "WHEN",
        help_heading = "Output"
    )]
    color: Color,
}

impl OutputArgs {
    pub(crate) fn open(&self) -> Output {
        Output::new(self.json, self.color, self.wide)
    }
}
