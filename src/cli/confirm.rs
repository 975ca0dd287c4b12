//! Confirmation before a dangerous change.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use super::client::Client;
use super::problem::Problem;

/// Continues only after a yes: by the flag, or by a person at a terminal, who is shown which server is
/// changed.
pub(crate) fn confirm(client: &Client, question: &str, yes: bool) -> Result<(), Problem> {
    if yes {
        return Ok(());
    }
    can_ask()?;
    let _written = write!(io::stderr().lock(), "at {}: {question} [y/N] ", client.server());
    let mut answer = String::new();
    let _read = io::stdin().lock().read_line(&mut answer)?;
    if agrees(&answer) { Ok(()) } else { Err(Problem::usage("not confirmed; nothing was changed")) }
}

/// Fails unless a person can be asked. Checked before the work that leads up to the question.
pub(crate) fn can_ask() -> Result<(), Problem> {
    if io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Problem::usage("not confirmed: standard input is not a terminal, so the question cannot be asked")
        .next("add --yes to do it without being asked"))
}

fn agrees(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::agrees;

    #[test]
    fn confirm_accepts_only_a_yes() {
        for (answer, yes) in [("y\n", true), ("YES\n", true), ("", false), ("\n", false), ("yess\n", false)] {
            assert_eq!(agrees(answer), yes, "{answer:?}");
        }
    }
}
