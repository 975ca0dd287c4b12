//! `rights`: the files by which a server knows callers, looked at without a server.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use super::clock;
use super::problem::{Exit, Problem};
use super::screen::{Color, Screen};
use crate::common::duration_arg::DurationArg;
use crate::identity::{Ending, NewToken, Rights, Rpc, Tokens, Whose};

/// How long a token may live that has an end.
const EXPIRES: RangeInclusive<Duration> = Duration::from_mins(1)..=Duration::from_hours(3_650 * 24);

/// The commands.
#[derive(Subcommand)]
#[allow(clippy::doc_markdown, rustdoc::bare_urls, reason = "each text is also its command's help")]
pub(super) enum Command {
    /// Tell whether a principal may do something, and by which line; exits with 1 when it may not
    Check {
        #[command(flatten)]
        files: RightsFile,
        /// Who: as logs and audit events name principals, such as token:payments or spiffe://shop/checkout
        principal: String,
        /// The consumer; *: all consumers at once
        consumer: String,
        /// The RPC, such as Claim or ListEntries
        rpc: String,
        /// The server's file of tokens, to name the principal's tokens that have ended or end within 14 days
        #[arg(long, env = "IDEMPOTENCY_LEDGER_TOKENS_FILE", value_name = "FILE")]
        tokens_file: Option<PathBuf>,
        #[command(flatten)]
        output: Output,
    },
    /// Tell what is wrong with the files, and what looks like a slip of the pen
    Lint {
        #[command(flatten)]
        files: RightsFile,
        /// The server's file of tokens, to compare the two
        #[arg(long, env = "IDEMPOTENCY_LEDGER_TOKENS_FILE", value_name = "FILE")]
        tokens_file: Option<PathBuf>,
        /// Exit with 1 when there are warnings
        #[arg(long)]
        strict: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Make a bearer token: it is printed this once, with the line for the server's file of tokens
    Token {
        /// Whom it stands for: the principal is token:NAME
        name: String,
        /// When it ends, from now on, such as 90d: 1m to 3650d. Unset: it does not end
        #[arg(long, value_name = "DURATION")]
        expires: Option<DurationArg>,
        #[command(flatten)]
        output: Output,
    },
}

/// The file of rights.
#[derive(Args)]
pub(super) struct RightsFile {
    /// The server's file of rights
    #[arg(long, env = "IDEMPOTENCY_LEDGER_RIGHTS_FILE", value_name = "FILE")]
    rights_file: PathBuf,
}

/// How to answer.
#[derive(Args)]
pub(super) struct Output {
    /// Answer with JSON
    #[arg(long, env = "IDEMPOTENCY_LEDGER_JSON", help_heading = "Output")]
    json: bool,
}

impl Output {
    fn screen(&self) -> Screen {
        Screen::new(self.json, Color::Auto, true)
    }
}

impl Command {
    pub(super) fn run(self) -> Result<Exit, Problem> {
        match self {
            Command::Check { files, principal, consumer, rpc, tokens_file, output } => {
                let tokens = tokens_file.as_deref();
                check(&files.rights_file, tokens, (&principal, &consumer, &rpc), output.screen())
            }
            Command::Lint { files, tokens_file, strict, output } => {
                lint(&files.rights_file, tokens_file.as_deref(), strict, output.screen())
            }
            Command::Token { name, expires, output } => {
                token(&name, expires.map(Duration::from), output.screen())
            }
        }
    }
}

fn check(
    file: &Path,
    tokens: Option<&Path>,
    (principal, consumer, rpc): (&str, &str, &str),
    screen: Screen,
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
    if screen.json() {
        let answer = json!({
            "allowed": line.is_some(),
            "needs": needs.word(),
            "line": line,
            "warnings": ending,
        });
        screen.line(&answer.to_string())?;
        return Ok(exit);
    }
    let on = match whose {
        Whose::All => "all consumers".to_owned(),
        Whose::Prefix(prefix) => format!("all consumers whose names begin with {prefix}"),
        Whose::Consumer(_) | Whose::Any => format!("the consumer {consumer}"),
    };
    let asked = format!("{principal}, {name} for {on}: needs `{needs}`");
    match line {
        Some(line) => screen.line(&format!("yes: {asked}; {}, line {line}", file.display()))?,
        None => screen.line(&format!("no: {asked}; no line of {} gives it", file.display()))?,
    }
    for text in &ending {
        screen.line(text)?;
    }
    Ok(exit)
}

fn lint(file: &Path, tokens: Option<&Path>, strict: bool, screen: Screen) -> Result<Exit, Problem> {
    let rights = read(file, "--rights-file", Rights::read)?;
    let tokens = tokens.map(|path| read(path, "--tokens-file", Tokens::read)).transpose()?;
    let warnings = rights.lint(tokens.as_ref(), now());
    let exit = if strict && !warnings.is_empty() { Exit::Failed } else { Exit::Done };
    if screen.json() {
        let warnings: Vec<_> =
            warnings.iter().map(|one| json!({ "line": one.line, "text": one.text })).collect();
        screen.line(&json!({ "warnings": warnings }).to_string())?;
        return Ok(exit);
    }
    for one in &warnings {
        let place = one.line.map_or_else(String::new, |line| format!(", line {line}"));
        screen.line(&format!("{}{place}: {}", file.display(), one.text))?;
    }
    if warnings.is_empty() {
        screen.note("nothing is odd");
    }
    Ok(exit)
}

fn token(name: &str, expires: Option<Duration>, screen: Screen) -> Result<Exit, Problem> {
    if let Some(after) = expires.filter(|after| !EXPIRES.contains(after)) {
        let said = DurationArg::from(after);
        return Err(Problem::usage(format!("--expires: is {said}, must be 1m to 3650d")));
    }
    let expires = expires.map(|after| now().saturating_add(after.as_secs()));
    let NewToken { token, hash, principal, line } =
        NewToken::until(name, expires).map_err(|text| Problem::usage(format!("NAME: {text}")))?;
    if screen.json() {
        let answer = json!({ "token": token, "hash": hash, "principal": principal, "line": line });
        screen.line(&answer.to_string())?;
        return Ok(Exit::Done);
    }
    screen.line(&token)?;
    screen.note(&format!(
        "This is the token of {principal}; it is not shown again. Keep it in a file that only its holder can read.\n\
         For the server's tokens_file, below [tokens] (a second hash beside it, while a token is replaced):\n\
         {line}"
    ));
    Ok(Exit::Done)
}

/// Seconds since 1970 by this machine's clock, by which a server judges tokens too.
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
