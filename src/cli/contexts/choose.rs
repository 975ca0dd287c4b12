//! Chooses the context, and merges the sources of each value: a flag comes first, then its variable, then the
//! context, then the default.

use std::path::PathBuf;
use std::time::Duration;

use super::fields::{Chosen, Context, Contexts, Field, folder};
use super::file::ContextsPath;
use crate::cli::connect_options::{ConnectOptions, SourcedValue, Token};
use crate::cli::options::Options;
use crate::cli::problem::Problem;
use crate::cli::text::clean;
use crate::common::duration_arg::DurationArg;

const USUAL: &str = "http://127.0.0.1:50051";
const TIMEOUT: Duration = Duration::from_secs(30);

/// The connect options of the server that these options name. With a named endpoint no context is used: its
/// token and its key are for its own server only.
pub(in crate::cli) fn connect_options(options: &Options) -> Result<ConnectOptions, Problem> {
    let chosen = match (&options.endpoint, &options.context) {
        (Some(_), Some(_)) => {
            let text = "--context and --endpoint (or IDEMPOTENCY_LEDGER_CONTEXT and IDEMPOTENCY_LEDGER_ENDPOINT) both \
                        name a server";
            return Err(Problem::usage(text).next("name one of them, and unset the other's variable"));
        }
        (Some(_), None) => None,
        (None, name) => choose(options, name.as_deref())?,
    };
    merged(options, chosen.as_ref())
}

/// The context of this name; without a name the current one, if one is set.
fn choose(options: &Options, name: Option<&str>) -> Result<Option<Chosen>, Problem> {
    let place = ContextsPath::of(&options.contexts);
    let contexts = place.as_ref().map_or_else(|| Ok(Contexts::default()), ContextsPath::read)?;
    let by = if name.is_some() { "--context" } else { "current" };
    let Some(name) = name.or(contexts.current.as_deref()) else { return Ok(None) };
    let context = find(&contexts, name, by)?.clone();
    let folder = place.map(|place| folder(&place.path).to_owned()).unwrap_or_default();
    Ok(Some(Chosen { name: name.to_owned(), context, folder }))
}

///
/// # Errors
/// The context does not exist; `by` is the source of its name.
pub(super) fn find<'c>(contexts: &'c Contexts, name: &str, by: &str) -> Result<&'c Context, Problem> {
    let known = contexts.known();
    let unknown = || Problem::usage(format!("{by}: context {:?} does not exist; {known}", clean(name)));
    contexts.named.get(name).ok_or_else(unknown)
}

fn merged(options: &Options, chosen: Option<&Chosen>) -> Result<ConnectOptions, Problem> {
    let flag = |flag: &str, value: &Option<PathBuf>| {
        value.clone().map(|value| SourcedValue { value, by: flag.to_owned() })
    };
    let text = |field| chosen.and_then(|chosen| chosen.text(field));
    let path = |field| chosen.and_then(|chosen| chosen.path(field));
    let endpoint = options.endpoint.clone().map(|value| SourcedValue { value, by: "--endpoint".to_owned() });
    let usual = || SourcedValue { value: USUAL.to_owned(), by: "--endpoint".to_owned() };
    let (mut cert, mut key) = (flag("--tls-cert", &options.tls_cert), flag("--tls-key", &options.tls_key));
    // A certificate is used only with its own key.
    if cert.is_none() && key.is_none() {
        (cert, key) = (path(Field::TlsCert), path(Field::TlsKey));
    }
    let token = match (&options.token, flag("--token-file", &options.token_file)) {
        (Some(_), Some(_)) => return Err(Problem::usage("--token and --token-file: name one of them")),
        (Some(token), None) => Some(Token::Typed(token.clone())),
        (None, Some(file)) => Some(Token::File(file)),
        (None, None) => path(Field::TokenFile).map(Token::File),
    };
    let timeout = match (options.timeout, text(Field::Timeout)) {
        (Some(timeout), _) => timeout.into(),
        (None, Some(SourcedValue { value, by })) => {
            value.parse::<DurationArg>().map_err(|why| Problem::usage(format!("{by}: {why}")))?.into()
        }
        (None, None) => TIMEOUT,
    };
    Ok(ConnectOptions {
        context: chosen.map(|chosen| chosen.name.clone()),
        endpoint: endpoint.or_else(|| text(Field::Endpoint)).unwrap_or_else(usual),
        tls_ca: flag("--tls-ca", &options.tls_ca).or_else(|| path(Field::TlsCa)),
        tls_cert: cert,
        tls_key: key,
        tls_domain: options.tls_domain.clone().or_else(|| Some(text(Field::TlsDomain)?.value)),
        token,
        plaintext_token: options.plaintext_token
            || text(Field::PlaintextToken).is_some_and(|said| said.value == "true"),
        timeout,
    })
}

///
/// # Errors
/// This context alone is not enough to connect.
pub(super) fn check(chosen: &Chosen) -> Result<(), Problem> {
    merged(&Options::default(), Some(chosen))?.check().map(drop)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        options: Options,
    }

    const CONTEXTS: &str = "current = \"staging\"\n[contexts.prod]\nendpoint = \"https://prod:1\"\n\
        tls_ca = \"prod-ca\"\ntls_cert = \"prod-cert\"\ntls_key = \"prod-key\"\ntls_domain = \"prod-name\"\n\
        token_file = \"prod-token\"\ntimeout = \"10s\"\n[contexts.staging]\nendpoint = \"staging:1\"\n\
        token_file = \"/run/staging-token\"\nplaintext_token = true\n";

    /// The connect options in short: context, server, authority, certificate, key, name, token, timeout.
    fn short(connect: &ConnectOptions) -> String {
        let path = |path: &Option<SourcedValue<PathBuf>>| {
            path.as_ref().map_or("-".to_owned(), |path| path.value.display().to_string())
        };
        let token = match &connect.token {
            Some(Token::Typed(token)) => token.clone(),
            Some(Token::File(file)) => file.value.display().to_string(),
            None => "-".to_owned(),
        };
        let parts = [
            connect.context.clone().unwrap_or("-".into()),
            connect.url(),
            path(&connect.tls_ca),
            path(&connect.tls_cert),
            path(&connect.tls_key),
            connect.tls_domain.clone().unwrap_or("-".into()),
            token,
            format!("{:?}", connect.timeout),
        ];
        parts.join(" ").replace("/c/", "")
    }

    #[test]
    fn flag_precedes_context_and_context_precedes_default() {
        let contexts = super::super::parse::parse(CONTEXTS).unwrap();
        let all = "prod-ca prod-cert prod-key prod-name";
        for (context, flags, expected) in [
            (None, "", "- http://127.0.0.1:50051 - - - - - 30s".to_owned()),
            (None, "--endpoint other:1", "- http://other:1 - - - - - 30s".into()),
            (Some("staging"), "", "staging http://staging:1 - - - - /run/staging-token 30s".into()),
            (Some("prod"), "", format!("prod https://prod:1 {all} prod-token 10s")),
            (Some("prod"), "--timeout 1s", format!("prod https://prod:1 {all} prod-token 1s")),
            (Some("prod"), "--token mine", format!("prod https://prod:1 {all} mine 10s")),
            (Some("prod"), "--token-file mine", format!("prod https://prod:1 {all} mine 10s")),
            (
                Some("prod"),
                "--tls-ca ca --tls-domain name",
                "prod https://prod:1 ca prod-cert prod-key name prod-token 10s".into(),
            ),
            // A certificate is used with its own key, and never with the context's.
            (
                Some("prod"),
                "--tls-cert mine",
                "prod https://prod:1 prod-ca mine - prod-name prod-token 10s".into(),
            ),
            (
                Some("prod"),
                "--tls-key key",
                "prod https://prod:1 prod-ca - key prod-name prod-token 10s".into(),
            ),
            (
                Some("prod"),
                "--tls-cert mine --tls-key key",
                "prod https://prod:1 prod-ca mine key prod-name prod-token 10s".into(),
            ),
            (
                Some("staging"),
                "--tls-ca ca",
                "staging https://staging:1 ca - - - /run/staging-token 30s".into(),
            ),
        ] {
            let Typed { options } = Typed::parse_from(["it"].into_iter().chain(flags.split_terminator(' ')));
            let chosen = context.map(|name: &str| Chosen {
                name: name.to_owned(),
                context: contexts.named[name].clone(),
                folder: "/c".into(),
            });
            let connect = merged(&options, chosen.as_ref()).unwrap();
            assert_eq!(short(&connect), expected, "{context:?} {flags}");
        }
    }

    /// The connect options, and which context is used.
    #[test]
    fn endpoint_flag_disables_the_current_context() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("contexts.toml");
        std::fs::write(&file, CONTEXTS).unwrap();
        let ask = |file: &Path, flags: &str| {
            let words = ["it", "--contexts-file", file.to_str().unwrap()];
            let words = words.into_iter().chain(flags.split_terminator(' '));
            let Typed { options } = Typed::parse_from(words);
            let said = connect_options(&options).map(|connect| short(&connect));
            said.map_err(|problem| problem.text)
        };
        let staging = "staging http://staging:1 - - - - /run/staging-token 30s";
        assert_eq!(ask(&file, ""), Ok(staging.to_owned()));
        assert_eq!(ask(&file, "--context staging"), Ok(staging.to_owned()));
        assert!(ask(&file, "--context prod").unwrap().starts_with("prod https://prod:1 "));
        // Even for the same server only what was typed counts.
        let bare = "- http://staging:1 - - - - - 30s".to_owned();
        assert_eq!(ask(&file, "--endpoint staging:1"), Ok(bare.clone()));
        assert_eq!(ask(&file, "--server staging:1"), Ok(bare.clone()));
        // The file is then not needed.
        assert_eq!(ask(Path::new("/no/such/file"), "--endpoint staging:1"), Ok(bare));
        for (flags, says) in [
            ("--endpoint a:1 --context prod", "both name a server"),
            ("--context prd", "--context: context \"prd\" does not exist; there are: prod, staging"),
        ] {
            assert!(ask(&file, flags).unwrap_err().contains(says), "{flags}");
        }
        std::fs::write(&file, CONTEXTS.replacen("staging", "gone", 1)).unwrap();
        let says = "current: context \"gone\" does not exist; there are: prod, staging";
        assert_eq!(ask(&file, ""), Err(says.to_owned()));
        assert!(ask(Path::new("/no/such/file"), "").unwrap_err().contains("/no/such/file"));
    }
}
