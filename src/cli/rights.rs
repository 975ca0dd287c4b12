//! `rights`: the files by which a server knows callers, looked at without a server.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::problem::{Exit, Problem};
use super::screen::{Color, Screen};
use crate::identity::{NewToken, Rights, Rpc, Tokens, Whose};

/// What stands for all consumers.
const ALL: &str = "*";

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
            Command::Check { files, principal, consumer, rpc, output } => {
                check(&files.rights_file, &principal, &consumer, &rpc, output.screen())
            }
            Command::Lint { files, tokens_file, strict, output } => {
                lint(&files.rights_file, tokens_file.as_deref(), strict, output.screen())
            }
            Command::Token { name, output } => token(&name, output.screen()),
        }
    }
}

fn check(file: &Path, principal: &str, consumer: &str, rpc: &str, screen: Screen) -> Result<Exit, Problem> {
    let rights = read(file, "--rights-file", Rights::read)?;
    let Some(Rpc { name, needs, .. }) = Rpc::all().find(|one| one.name.eq_ignore_ascii_case(rpc)) else {
        let names: Vec<_> = Rpc::all().map(|rpc| rpc.name).collect();
        return Err(Problem::usage(format!("RPC: {rpc} is none; there are {}", names.join(", "))));
    };
    let whose = if consumer == ALL { Whose::All } else { Whose::Consumer(consumer) };
    let line = rights.line_for(principal, needs, whose);
    let exit = if line.is_some() { Exit::Done } else { Exit::Failed };
    if screen.json() {
        screen
            .line(&json!({ "allowed": line.is_some(), "needs": needs.word(), "line": line }).to_string())?;
        return Ok(exit);
    }
    let on = if consumer == ALL { "all consumers".to_owned() } else { format!("the consumer {consumer}") };
    let asked = format!("{principal}, {name} for {on}: needs `{needs}`");
    match line {
        Some(line) => screen.line(&format!("yes: {asked}; {}, line {line}", file.display()))?,
        None => screen.line(&format!("no: {asked}; no line of {} gives it", file.display()))?,
    }
    Ok(exit)
}

fn lint(file: &Path, tokens: Option<&Path>, strict: bool, screen: Screen) -> Result<Exit, Problem> {
    let rights = read(file, "--rights-file", Rights::read)?;
    let tokens = tokens.map(|path| read(path, "--tokens-file", Tokens::read)).transpose()?;
    let warnings = rights.lint(tokens.as_ref());
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

fn token(name: &str, screen: Screen) -> Result<Exit, Problem> {
    let NewToken { token, hash, principal } =
        NewToken::make(name).map_err(|text| Problem::usage(format!("NAME: {text}")))?;
    if screen.json() {
        screen.line(&json!({ "token": token, "hash": hash, "principal": principal }).to_string())?;
        return Ok(Exit::Done);
    }
    screen.line(&token)?;
    screen.note(&format!(
        "This is the token of {principal}; it is not shown again. Keep it in a file that only its holder can read.\n\
         For the server's tokens_file, below [tokens] (a second hash beside it, while a token is replaced):\n\
         {name} = [\"{hash}\"]"
    ));
    Ok(Exit::Done)
}

fn read<T>(path: &Path, flag: &str, parse: fn(&str) -> Result<T, Vec<String>>) -> Result<T, Problem> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Problem::usage(format!("{flag}: {}: {error}", path.display())))?;
    parse(&text).map_err(|problems| {
        let named = problems.iter().map(|problem| format!("{flag}: {}: {problem}", path.display()));
        Problem::usage(named.collect::<Vec<_>>().join("\nerror: "))
    })
}
