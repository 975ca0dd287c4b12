//! `context set`: adds a context, or changes its named fields.

use std::path::{Path, PathBuf};

use clap::Args;

use super::choose::check;
use super::edit;
use super::fields::{Chosen, Contexts, Field, folder, name};
use super::file::ContextsPath;
use super::parse::checked;
use crate::cli::output::Output;
use crate::cli::problem::Problem;
use crate::cli::text::clean;

/// `context set`.
#[derive(Args)]
pub(in crate::cli) struct Set {
    /// Its name: letters, digits, `.`, `_` and `-`
    #[arg(value_parser = name)]
    name: String,
    /// The server: http://HOST:PORT, https://HOST:PORT, or HOST:PORT; a new context needs one
    #[arg(long, visible_alias = "server", value_name = "URL")]
    #[allow(rustdoc::bare_urls, reason = "it is also the option's help")]
    endpoint: Option<String>,
    /// The authority that signed the server's certificate, as PEM
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Your own certificate, as PEM, where the server asks for one
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Its private key, as PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// The name that the server's certificate must have
    #[arg(long, value_name = "NAME")]
    tls_domain: Option<String>,
    /// A file with your token; the token itself is never stored in the contexts file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Also send the token over http:// to another machine, where something else encrypts the connection
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[allow(rustdoc::bare_urls, reason = "it is also the option's help")]
    plaintext_token: Option<bool>,
    /// How long to wait for each answer, such as 10s
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
}

impl Set {
    pub(super) fn run(self, place: &ContextsPath, output: Output) -> Result<(), Problem> {
        let fields = self.fields()?;
        if fields.is_empty() {
            return Err(Problem::usage("nothing to set: name at least --endpoint"));
        }
        let name = self.name;
        let folder = folder(&place.path);
        let (is_new, chosen, others) = place.change(|text, contexts| {
            let is_new = !contexts.named.contains_key(&name);
            let mut expected = contexts.clone();
            let context = expected.named.entry(name.clone()).or_default();
            context.0.extend(fields.iter().cloned());
            if context.get(Field::Endpoint).is_none() {
                let text = format!("context {name:?} does not exist yet, and a new one needs --endpoint");
                return Err(Problem::usage(format!("{text}; {}", contexts.known())));
            }
            let chosen = Chosen { name: name.clone(), context: context.clone(), folder: folder.to_owned() };
            check(&chosen)?;
            let summary = (is_new, chosen, unused(contexts, &name));
            Ok((edit::with_fields(text, &name, &fields), expected, summary))
        })?;
        let done = if is_new { "added" } else { "changed" };
        output.note(&format!("{done} {name} in {}{others}", clean(&place.path.display().to_string())));
        note_missing(&chosen, output);
        Ok(())
    }

    /// The named fields, as the file has them.
    fn fields(&self) -> Result<Vec<(Field, String)>, Problem> {
        let mut fields = Vec::new();
        for (field, flag, text) in [
            (Field::Endpoint, "--endpoint", &self.endpoint),
            (Field::TlsDomain, "--tls-domain", &self.tls_domain),
            (Field::Timeout, "--timeout", &self.timeout),
        ] {
            if let Some(text) = text {
                checked(field, text).map_err(|why| Problem::usage(format!("{flag}: {why}")))?;
                fields.push((field, text.clone()));
            }
        }
        for (field, flag, path) in [
            (Field::TlsCa, "--tls-ca", &self.tls_ca),
            (Field::TlsCert, "--tls-cert", &self.tls_cert),
            (Field::TlsKey, "--tls-key", &self.tls_key),
            (Field::TokenFile, "--token-file", &self.token_file),
        ] {
            if let Some(path) = path {
                fields.push((field, absolute(path).map_err(|why| Problem::usage(format!("{flag}: {why}")))?));
            }
        }
        if let Some(allowed) = self.plaintext_token {
            fields.push((Field::PlaintextToken, allowed.to_string()));
        }
        fields.sort_by_key(|(field, _)| *field);
        Ok(fields)
    }
}

/// The absolute path: the folder in which it was typed is not stored.
fn absolute(path: &Path) -> Result<String, String> {
    let whole = std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = whole.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("{}: its name is not UTF-8, as the file of contexts must be", path.display()))
}

/// Notes a missing file: it may be created later, but a typing mistake is better known now.
fn note_missing(chosen: &Chosen, output: Output) {
    for field in Field::ALL.into_iter().filter(|field| field.is_path()) {
        if let Some(file) = chosen.path(field).filter(|file| !file.value.exists()) {
            output.note(&clean(&format!("note: {}: {} is not there", field.word(), file.value.display())));
        }
    }
}

/// A note if the context is not in use: its author may believe that it is.
fn unused(contexts: &Contexts, name: &str) -> String {
    if contexts.current.as_deref() == Some(name) {
        return String::new();
    }
    format!("; use it with --context {name}, or always: `context use {name}`")
}
