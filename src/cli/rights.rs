//! `rights`: reads the server's credential files, without a server.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use super::clock;
use super::output::{Color, Output};
use super::problem::{Exit, Problem};
use crate::common::duration_arg::DurationArg;
use crate::identity::{Ending, NewToken, Rights, Rpc, Tokens, Whose};

/// How long a token with an end may be valid.
const EXPIRES: RangeInclusive<Duration> = Duration::from_mins(1)..=Duration::from_hours(3_650 * 24);

/// The commands.
#[derive(Subcommand)]
#[allow(clippy::doc_markdown, rustdoc::bare_urls, reason = "each text is also its command's help")]
pub(super) enum Command {
    /// Show whether a principal may do something, and by which line; exits with 1 when it may not
    Check {
        #[command(flatten)]
        files: RightsFile,
        /// The principal, as logs and audit events name it, such as token:payments or spiffe://shop/checkout
        principal: String,
        /// The consumer; * for all consumers
        consumer: String,
        /// The RPC, such as Claim or ListEntries
        rpc: String,
        /// The server's file of tokens, to name the principal's tokens that have ended or end within 14 days
        #[arg(long, env = "IDEMPOTENCY_LEDGER_TOKENS_FILE", value_name = "FILE")]
        tokens_file: Option<PathBuf>,
        #[command(flatten)]
        output: JsonArg,
    },
    /// Show what is wrong with the files, and what looks like a typing mistake
    Lint {
        #[command(flatten)]
        files: RightsFile,
        /// The server's file of tokens, to compare both files
        #[arg(long, env = "IDEMPOTENCY_LEDGER_TOKENS_FILE", value_name = "FILE")]
        tokens_file: Option<PathBuf>,
        /// Exit with 1 when there are warnings
        #[arg(long)]
        strict: bool,
        #[command(flatten)]
        output: JsonArg,
    },
    /// Make a bearer token: it is printed only now, with the line for the server's file of tokens
    Token {
        /// The name of its principal: token:NAME
        name: String,
        /// How long it is valid, such as 90d: 1m to 3650d. Unset: it does not end
        #[arg(long, value_name = "DURATION")]
        expires: Option<DurationArg>,
        #[command(flatten)]
        output: JsonArg,
    },
}

/// The file of rights.
#[derive(Args)]
pub(super) struct RightsFile {
    /// The server's file of rights
    #[arg(long, env = "IDEMPOTENCY_LEDGER_RIGHTS_FILE", value_name = "FILE")]
    rights_file: PathBuf,
}

/// The form of the answer.
#[derive(Args)]
pub(super) struct JsonArg {
    /// Answer with JSON
    #[arg(long, env = "IDEMPOTENCY_LEDGER_JSON", help_heading = "Output")]
    json: bool,
}

impl JsonArg {
    fn open(&self) -> Output {
        Output::new(self.json, Color::Auto, true)
    }
}

impl Command {
    pub(super) fn run(self) -> Result<Exit, Problem> {
        match self {
            Command::Check { files, principal, consumer, rpc, tokens_file, output } => {
                let tokens = tokens_file.as_deref();
                check(&files.rights_file, tokens, (&principal, &consumer, &rpc), output.open())
            }
            Command::Lint { files, tokens_file, strict, output } => {
                lint(&files.rights_file, tokens_file.as_deref(), strict, output.open())
            }
            Command::Token { name, expires, output } => {
                token(&name, expires.map(Duration::from), output.open())
            }
        }
    }
}

fn check(
    file: &Path,
    tokens: Option<&Path>,
    (principal, consumer, rpc): (&str, &str, &str),
    output: Output,
) -> Result<Exit, Problem> {
    let rights = read(file, "--rights-file", Rights::read)?;
    let tokens = tokens.map(|path| read(path, "--tokens-file", Tokens::read)).transpose()?;
    let Some(Rpc { name, needs, .. }) = Rpc::all().find(|one| one.name.eq_ignore_ascii_case(rpc)) else {
        let names: Vec<_> = Rpc::all().map(|rpc| rpc.name).collect();
        return Err(Problem::usage(format!("RPC: {rpc} is none; there are {}", names.join(", "))));
    };
    let whose = match consumer.strip_suffix('*') {
        Some("") => Whose::All,
        Some(prefix) => Whose::Prefix(prefix),
        None => Whose::Consumer(consumer),
    };
    let line = rights.line_for(principal, needs, whose);
    let exit = if line.is_some() { Exit::Done } else { Exit::Failed };
    let mut ending = tokens.map_or_else(Vec::new, |tokens| tokens.ending(now()));
    ending.retain(|one| one.principal == principal);
    let ending: Vec<String> = ending.iter().map(Ending::to_string).collect();
    if output.json() {
        let answer = json!({
            "allowed": line.is_some(),
            "needs": needs.word(),
            "line": line,
            "warnings": ending,
        });
        output.line(&answer.to_string())?;
        return Ok(exit);
    }
    let on = match whose {
        Whose::All => "all consumers".to_owned(),
        Whose::Prefix(prefix) => format!("all consumers whose names begin with {prefix}"),
        Whose::Consumer(_) | Whose::Any => format!("the consumer {consumer}"),
    };
    let asked = format!("{principal}, {name} for {on}: needs `{needs}`");
    match line {
        Some(line) => output.line(&format!("yes: {asked}; {}, line {line}", file.display()))?,
        None => output.line(&format!("no: {asked}; no line of {} gives it", file.display()))?,
    }
    for text in &ending {
        output.line(text)?;
    }
    Ok(exit)
}

fn lint(file: &Path, tokens: Option<&Path>, strict: bool, output: Output) -> Result<Exit, Problem> {
    let rights = read(file, "--rights-file", Rights::read)?;
    let tokens = tokens.map(|path| read(path, "--tokens-file", Tokens::read)).transpose()?;
    let warnings = rights.lint(tokens.as_ref(), now());
    let exit = if strict && !warnings.is_empty() { Exit::Failed } else { Exit::Done };
    if output.json() {
        let warnings: Vec<_> =
            warnings.iter().map(|one| json!({ "line": one.line, "text": one.text })).collect();
        output.line(&json!({ "warnings": warnings }).to_string())?;
        return Ok(exit);
    }
    for one in &warnings {
        let place = one.line.map_or_else(String::new, |line| format!(", line {line}"));
        output.line(&format!("{}{place}: {}", file.display(), one.text))?;
    }
    if warnings.is_empty() {
        output.note("nothing is odd");
    }
    Ok(exit)
}

fn token(name: &str, expires: Option<Duration>, output: Output) -> Result<Exit, Problem> {
    if let Some(after) = expires.filter(|after| !EXPIRES.contains(after)) {
        let said = DurationArg::from(after);
        return Err(Problem::usage(format!("--expires: is {said}, must be 1m to 3650d")));
    }
    let expires = expires.map(|after| now().saturating_add(after.as_secs()));
    let NewToken { token, hash, principal, line } =
        NewToken::until(name, expires).map_err(|text| Problem::usage(format!("NAME: {text}")))?;
    if output.json() {
        let answer = json!({ "token": token, "hash": hash, "principal": principal, "line": line });
        output.line(&answer.to_string())?;
        return Ok(Exit::Done);
    }
    output.line(&token)?;
    output.note(&format!(
        "This is the token of {principal}; it is not shown again. Keep it in a file that only its holder can read.\n\
         For the server's tokens_file, below [tokens] (with a second hash next to it while a token is replaced):\n\
         {line}"
    ));
    Ok(Exit::Done)
}

/// Seconds since 1970 by this machine's clock, by which a server checks tokens too.
fn now() -> u64 {
    u64::try_from(clock::now().seconds).unwrap_or_default()
}

fn read<T>(path: &Path, flag: &str, parse: fn(&str) -> Result<T, Vec<String>>) -> Result<T, Problem> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Problem::usage(format!("{flag}: {}: {error}", path.display())))?;
    parse(&text).map_err(|problems| {
        let named = problems.iter().map(|problem| format!("{flag}: {}: {problem}", path.display()));
        Problem::usage(named.collect::<Vec<_>>().join("\nerror: "))
    })
}
