//! Asking before harm.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use super::client::Client;
use super::problem::Problem;

/// Goes on only with a yes: of the flag, or of a person at a terminal, who is told which server is changed.
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

/// There is somebody to ask. Known before the work that leads up to the question.
pub(crate) fn can_ask() -> Result<(), Problem> {
    if io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Problem::usage("not confirmed: standard input is no terminal, so nobody can be asked")
        .next("add --yes to do it without being asked"))
}

fn agrees(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::agrees;

    #[test]
    fn only_a_yes_is_a_yes() {
        for (answer, yes) in [("y\n", true), ("YES\n", true), ("", false), ("\n", false), ("yess\n", false)] {
            assert_eq!(agrees(answer), yes, "{answer:?}");
        }
    }
}
