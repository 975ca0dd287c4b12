//! The exit codes of `once`.

use crate::cli::problem::{Exit, Problem};

/// Done, now or by an earlier run.
pub(super) const DONE: u8 = 0;
/// The code of a failed command whose own code would read as one of `once`.
pub(super) const FAILED: u8 = 1;
/// Wrong usage: repeating the call does not help.
pub(super) const USAGE: u8 = 2;
/// `EX_DATAERR`: the message is parked, has failed for good, or is refused for its content.
pub(super) const DEAD_LETTER: u8 = 65;
/// `EX_TEMPFAIL`: run the same command line again later.
pub(super) const LATER: u8 = 75;
/// The command cannot be executed, or was not found: as in shells.
pub(super) const NOT_EXECUTABLE: u8 = 126;
pub(super) const NOT_FOUND: u8 = 127;

/// The exit codes, for `--help`.
pub(in crate::cli) const ONCE_CODES: &str = "\
Exit codes:
  0    done: the command ended with 0 and that is stored, or an earlier run was done (its result is printed)
  2    called wrongly, or the server refuses a field (INVALID_FIELD)
  65   the message is parked, has failed for good, or is refused for what it is: a person must look at it
  75   run it again later: another run has the claim, the ledger cannot answer, the lease was lost, or the command
       is done and the ledger did not confirm that
  126  the command cannot be executed; 127: it is not there. Nothing was done
  else the command's own code, where 65 and 75 become 1; 128+N where signal N ended it";

/// The code for a failed command. 65 and 75 tell the caller what to do with the broker's message, so that the command's own
/// 65 and 75 become 1.
pub(super) fn passed_on(code: u8) -> u8 {
    if [DEAD_LETTER, LATER].contains(&code) { FAILED } else { code }
}

/// The code of a command, or of `once` itself, that a signal ended.
pub(super) fn of_signal(number: i32) -> u8 {
    u8::try_from(number).unwrap_or(FAILED).saturating_add(128)
}

/// Prints the problem; wrong usage stays so, any other problem may be temporary.
pub(super) fn of_problem(problem: Problem) -> u8 {
    if problem.print() == Exit::Usage { USAGE } else { LATER }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_on_keeps_every_code_but_its_own_two() {
        for code in 1..=u8::MAX {
            let expected = if code == 65 || code == 75 { 1 } else { code };
            assert_eq!(passed_on(code), expected);
        }
        assert_eq!((of_signal(9), of_signal(15)), (137, 143));
    }
}
