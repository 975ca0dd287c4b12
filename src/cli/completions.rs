//! `completions`: the completions of a shell, and the names of consumers, for which they ask the server.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use clap_complete::Shell;
use tokio::time::timeout;

use super::client::Client;
use super::options::Options;
use super::output::Output;
use super::policy;
use super::problem::{Exit, Problem};
use super::text::hidden;
use crate::proto;

/// A person waits for the names: after this long what has arrived is offered.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);
/// More names than this are of no use in a shell.
const NAMES_MAX: usize = 500;
const PAGE: i32 = 100;
const PAGES_MAX: usize = 5;

/// Appended for bash: the word after `--consumer`, and the first word after a command that names a consumer.
const BASH: &str = r#"
_idempotency__ledger_consumers() {
    _idempotency__ledger "$@"
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" group="" at
    local -a options=()
    (( COMP_CWORD > 1 )) && group="${COMP_WORDS[COMP_CWORD-2]}"
    case "$group $before" in
        *" --consumer") ;;
        "entries get"|"entries lookup"|"entries next"|"entries message"|"entries store") ;;
        "entries redrive"|"entries park"|"entries resolve"|"entries delete") ;;
        "policy get"|"policy set"|"policy delete"|"policy history"|"policy export") ;;
        "replay create"|"replay close"|"replay list") ;;
        *) return 0 ;;
    esac
    [[ "$word" == -* ]] && return 0
    for (( at = 1; at < COMP_CWORD; at++ )); do
        case "${COMP_WORDS[at]}" in
            --endpoint|--server|--context|--contexts-file|--tls-ca|--tls-cert|--tls-key|--tls-domain|--token-file)
                options+=("${COMP_WORDS[at]}" "${COMP_WORDS[at+1]}") ;;
        esac
    done
    COMPREPLY=()
    while IFS= read -r at; do
        COMPREPLY+=("$(printf %q "$at")")
    done < <("${COMP_WORDS[0]}" complete-consumers "${options[@]}" -- "$word" 2>/dev/null)
}
complete -F _idempotency__ledger_consumers -o bashdefault -o default idempotency-ledger
"#;

const ZSH: &str = r#"
_idempotency_ledger_consumers() {
    local -a names
    names=("${(@f)$(idempotency-ledger complete-consumers -- "$PREFIX" 2>/dev/null)}")
    compadd -a names
}
"#;

const FISH: &str = r#"
complete -c idempotency-ledger -l consumer -x -a "(idempotency-ledger complete-consumers -- (commandline -ct) 2>/dev/null)"
"#;

/// Prints the completions of a shell.
pub(super) fn completions(shell: Shell, mut root: clap::Command) -> Result<Exit, Problem> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut root, "idempotency-ledger", &mut text);
    let mut script = String::from_utf8_lossy(&text).into_owned();
    if shell == Shell::Bash {
        // The generator gives the part below a hyphenated name two different names, so that one half of the
        // script does not find the other.
        script = script.replace("idempotency__subcmd__ledger", "idempotency__ledger") + BASH;
    } else if shell == Shell::Zsh {
        script = script.replace(":CONSUMER:_default", ":CONSUMER:_idempotency_ledger_consumers");
        // The functions of a completion file stand before its last part, which calls one of them.
        let end = script.rfind("\nif [ \"$funcstack[1]\"").unwrap_or(script.len());
        script.insert_str(end, ZSH);
    } else if shell == Shell::Fish {
        script.push_str(FISH);
    }
    Output::plain().bytes(script.as_bytes())?;
    Ok(Exit::Done)
}

/// What the completions of shells call.
#[derive(Args)]
pub struct CompleteConsumers {
    #[command(flatten)]
    options: Options,
    /// What the names begin with
    #[arg(default_value = "")]
    prefix: String,
}

impl CompleteConsumers {
    /// Prints the names that begin with the prefix, one a line. What cannot be asked for is left out: a shell has no place for
    /// errors.
    pub(super) async fn run(self) -> Result<Exit, Problem> {
        let client = Client::new(&self.options, self.options.output.open())?;
        let mut names = BTreeSet::new();
        let _late = timeout(ANSWERED_WITHIN, gather(&client, &self.prefix, &mut names)).await;
        names.iter().take(NAMES_MAX).try_for_each(|name| client.output.line(name))?;
        Ok(Exit::Done)
    }
}

/// The consumers that have their own policy, and those that have entries.
async fn gather(client: &Client, prefix: &str, names: &mut BTreeSet<String>) -> Result<(), Problem> {
    let mut admin = client.connect().await?;
    let fits = |name: &String| name.starts_with(prefix) && !name.chars().any(hidden);
    let policies = policy::all(client, &mut admin).await?;
    names.extend(policies.into_iter().map(|one| one.consumer).filter(fits));
    let mut request = proto::SummarizeEntriesRequest { page_size: PAGE, ..Default::default() };
    for _ in 0..PAGES_MAX {
        let page = admin.summarize_entries(client.request(request.clone())).await;
        let page = page.map_err(|status| Problem::of(&status))?.into_inner();
        names.extend(page.consumers.into_iter().map(|one| one.consumer).filter(fits));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    Ok(())
}
