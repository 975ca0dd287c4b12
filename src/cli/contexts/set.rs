//! `context set`: a context is added, or changed where something is named.

use std::path::{Path, PathBuf};

use clap::Args;

use super::choose::check;
use super::edit;
use super::fields::{Chosen, Contexts, Field, folder, name};
use super::file::Place;
use super::parse::checked;
use crate::cli::problem::Problem;
use crate::cli::screen::Screen;
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
    /// A file with the token that says who you are; the token itself never stands among the contexts
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Send the token also over http:// to another machine, where something else encrypts the way
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[allow(rustdoc::bare_urls, reason = "it is also the option's help")]
    plaintext_token: Option<bool>,
    /// How long to wait for each answer, such as 10s
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
}

impl Set {
    pub(super) fn run(self, place: &Place, screen: Screen) -> Result<(), Problem> {
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
                let text = format!("there is no context {name:?} yet, and a new one needs --endpoint");
                return Err(Problem::usage(format!("{text}; {}", contexts.known())));
            }
            let chosen = Chosen { name: name.clone(), context: context.clone(), folder: folder.to_owned() };
            check(&chosen)?;
            let told = (is_new, chosen, unused(contexts, &name));
            Ok((edit::with_fields(text, &name, &fields), expected, told))
        })?;
        let done = if is_new { "added" } else { "changed" };
        screen.note(&format!("{done} {name} in {}{others}", clean(&place.path.display().to_string())));
        note_missing(&chosen, screen);
        Ok(())
    }

    /// What was named, each as the file has it.
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

/// A path as it is from every folder: the one in which it was typed will not be remembered.
fn absolute(path: &Path) -> Result<String, String> {
    let whole = std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = whole.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("{}: its name is no UTF-8, which the file of contexts is", path.display()))
}

/// A file may come later, but a mistyped one is better known now.
fn note_missing(chosen: &Chosen, screen: Screen) {
    for field in Field::ALL.into_iter().filter(|field| field.is_path()) {
        if let Some(file) = chosen.path(field).filter(|file| !file.value.exists()) {
            screen.note(&clean(&format!("note: {}: {} is not there", field.word(), file.value.display())));
        }
    }
}

/// Whoever has set a context may believe that it is in use.
fn unused(contexts: &Contexts, name: &str) -> String {
    if contexts.current.as_deref() == Some(name) {
        return String::new();
    }
    format!("; use it with --context {name}, or always: `context use {name}`")
}
