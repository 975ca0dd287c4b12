//! `once`: runs a command for a message, once, and stores what it printed. A consumer for cron, shell and CI.

mod command;
mod exit;
mod grant;
mod lease;
mod settle;
mod signals;

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use clap::Args;
use rustix::process::Signal;
use tokio::time::{Instant, sleep_until};

use self::command::{CommandOutput, Ended, Running};
use self::exit::{DEAD_LETTER, DONE, LATER};
use self::grant::{ClaimOutcome, Held, claim};
use self::signals::Signals;
use super::client::Client;
use super::problem::Problem;
use super::stderr::print_stderr;
use crate::common::duration_arg::DurationArg;
use crate::common::patient_write::write_all;
use crate::proto::{EntryKey, FailureKind};

pub(super) use self::exit::ONCE_CODES;

/// Which message, and which command.
#[derive(Args)]
pub(super) struct Run {
    /// The consumer in whose name the message is claimed
    consumer: String,
    /// Where the message's id comes from
    source: String,
    /// The message's id: the command runs once for it
    id: String,
    /// The lease; it is renewed while the command runs [default: the consumer's policy's]
    #[arg(long, value_name = "DURATION")]
    lease: Option<DurationArg>,
    /// An exit code of the command that parks the message for a person; after every other one except 0 the
    /// message is retried later. Repeat it for several
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u8).range(1..))]
    park_on: Vec<u8>,
    /// Maximum size of standard output, in bytes, that is stored as the result; a longer output is not stored
    #[arg(long, value_name = "BYTES", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(..=1_048_576))]
    output_max: u32,
    /// How long to repeat the report of the command's outcome until the ledger confirms it
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    confirm_within: DurationArg,
    /// How long a command whose lease was lost has between TERM and KILL
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    kill_after: DurationArg,
    /// Run the command though an earlier attempt had announced its effect, which may have happened
    #[arg(long)]
    repeat_announced: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The outcome of a started command.
enum Outcome {
    Ended(Ended, CommandOutput),
    /// The claim was lost, and the command was ended for that reason.
    Lost(Ended, CommandOutput),
    /// A second signal ended it.
    Killed(Signal),
}

impl Run {
    /// The exit code.
    pub(super) async fn run(self, client: Result<Client, Problem>) -> u8 {
        let (client, mut signals) = match (client, Signals::take_over()) {
            (Ok(client), Ok(signals)) => (client, signals),
            (Err(problem), _) => return exit::of_problem(problem),
            (_, Err(error)) => return exit::of_problem(Problem::failed(format!("signals: {error}"))),
        };
        let key = EntryKey {
            consumer: self.consumer.clone(),
            source: self.source.clone(),
            id: self.id.clone(),
            ..EntryKey::default()
        };
        let answer = tokio::select! {
            answer = claim(client, key, self.lease.map(Duration::from)) => answer,
            number = signals.second() => return exit::of_signal(number.as_raw()),
        };
        match answer {
            Err(problem) => exit::of_problem(problem),
            Ok(ClaimOutcome::Held(held)) => self.hold(&held, &mut signals).await,
            Ok(ClaimOutcome::Over { code, result, note }) => {
                if let Some(note) = note {
                    print_stderr(&format!("once: {note}"));
                }
                print(code, &result)
            }
        }
    }

    /// Runs the command under a claim, and reports its outcome.
    async fn hold(&self, held: &Held, signals: &mut Signals) -> u8 {
        if let Some(number) = signals.first() {
            return self.give_back(held, signals, exit::of_signal(number.as_raw())).await;
        }
        if held.acquired.prior_effect_started && !self.repeat_announced {
            return self.park_announced(held, signals).await;
        }
        let environment = [
            ("IDEMPOTENCY_KEY", held.acquired.idempotency_key.clone()),
            ("LEDGER_FENCING_TOKEN", held.token.to_string()),
            ("LEDGER_ATTEMPT", held.acquired.attempt.to_string()),
        ];
        let running = match Running::start(&self.command, &environment, self.output_max as usize + 1) {
            Ok(running) => running,
            Err(error) => {
                let program = self.command.first().map(OsString::as_os_str).unwrap_or_default();
                print_stderr(&format!("once: {}: {error}; nothing was done", program.display()));
                let missing = error.kind() == io::ErrorKind::NotFound;
                let code = if missing { exit::NOT_FOUND } else { exit::NOT_EXECUTABLE };
                return self.give_back(held, signals, code).await;
            }
        };
        let outcome = self.watch(held, running, signals).await;
        if let Outcome::Killed(number) = outcome {
            print_stderr("once: ended by a second signal; the claim is not settled: its lease runs out");
            return exit::of_signal(number.as_raw());
        }
        tokio::select! {
            code = self.settle(held, outcome) => code,
            number = signals.second() => {
                print_stderr("once: ended by a second signal; what became of the command may not be stored");
                exit::of_signal(number.as_raw())
            }
        }
    }

    /// Waits for the end of the command, renews the lease meanwhile, and passes the first signal on.
    async fn watch(&self, held: &Held, mut running: Running, signals: &mut Signals) -> Outcome {
        let keeping = lease::keep(held, self.lease.map(Duration::from));
        tokio::pin!(keeping);
        let mut lost = false;
        let mut kill_at: Option<Instant> = None;
        loop {
            tokio::select! {
                _ = &mut running.ended => break,
                number = signals.next() => {
                    if signals.end() {
                        running.signal(Signal::KILL);
                        return Outcome::Killed(number);
                    }
                    running.pass_on(number);
                }
                why = &mut keeping, if !lost => {
                    print_stderr(&format!("once: the claim is lost: {why}; the command is ended"));
                    running.signal(Signal::TERM);
                    kill_at = Some(Instant::now() + Duration::from(self.kill_after));
                    lost = true;
                }
                () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                    running.signal(Signal::KILL);
                    kill_at = None;
                }
            }
        }
        let (ended, output) = running.outcome().await;
        if lost { Outcome::Lost(ended, output) } else { Outcome::Ended(ended, output) }
    }

    async fn settle(&self, held: &Held, outcome: Outcome) -> u8 {
        match outcome {
            Outcome::Ended(Ended::Code(0), output) => self.complete(held, output).await,
            Outcome::Ended(Ended::Code(code), _) => {
                let park = self.park_on.contains(&code);
                let kind = if park { FailureKind::Park } else { FailureKind::Retryable };
                self.fail(held, kind, format!("exit code {code}"), exit::passed_on(code)).await
            }
            Outcome::Ended(Ended::Signal(number), _) => {
                let text = format!("ended by signal {number}");
                self.fail(held, FailureKind::Retryable, text, exit::of_signal(number)).await
            }
            // The command is done in any case, and the ledger must know: another holder may have done it, too.
            Outcome::Lost(Ended::Code(0), output) => {
                self.complete(held, output).await;
                LATER
            }
            Outcome::Lost(..) | Outcome::Killed(_) => LATER,
        }
    }

    async fn complete(&self, held: &Held, output: CommandOutput) -> u8 {
        let fits = output.bytes <= u64::from(self.output_max);
        let result = fits.then(|| output.head.into());
        match settle::complete(held, result, self.confirm_within.into()).await {
            Ok(stored) => {
                if !stored {
                    let max = if fits { "what the server keeps" } else { "--output-max" };
                    let bytes = output.bytes;
                    print_stderr(&format!(
                        "once: done; the output of {bytes} bytes is above {max} and was not stored"
                    ));
                }
                DONE
            }
            Err(problem) => {
                let text = problem.text;
                print_stderr(&format!(
                    "once: the command is done, and the ledger has not confirmed that: {text}\n  next: run it again; it \
                     may run a second time. Its effect happens once only where it uses IDEMPOTENCY_KEY or \
                     LEDGER_FENCING_TOKEN"
                ));
                LATER
            }
        }
    }

    async fn fail(&self, held: &Held, kind: FailureKind, error: String, code: u8) -> u8 {
        if let Err(problem) = settle::fail(held, kind, error, self.confirm_within.into()).await {
            print_stderr(&format!("once: the failure is not stored: {}; the lease runs out", problem.text));
        }
        code
    }

    /// Parks the message: an earlier attempt announced its effect, which may have happened, and a person must
    /// find out.
    async fn park_announced(&self, held: &Held, signals: &mut Signals) -> u8 {
        print_stderr(
            "once: an earlier attempt had announced its effect, which may have happened: the message is parked\n  next: \
             find out, then `entries resolve`; or run it with --repeat-announced",
        );
        let error = "an earlier attempt had announced its effect".to_owned();
        tokio::select! {
            code = self.fail(held, FailureKind::Park, error, DEAD_LETTER) => code,
            number = signals.second() => exit::of_signal(number.as_raw()),
        }
    }

    /// Releases the claim: the command did not run.
    async fn give_back(&self, held: &Held, signals: &mut Signals, code: u8) -> u8 {
        tokio::select! {
            released = settle::release(held, self.confirm_within.into()) => {
                if let Err(problem) = released {
                    print_stderr(&format!("once: the claim is not released: {}; its lease runs out", problem.text));
                }
                code
            }
            number = signals.second() => exit::of_signal(number.as_raw()),
        }
    }
}

/// Prints a stored result unchanged. A closed standard output is not an error; a full disk loses the result.
fn print(code: u8, result: &[u8]) -> u8 {
    match write_all(&mut io::stdout().lock(), &mut &*result) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            print_stderr(&format!("error: standard output: {error}"));
            exit::FAILED
        }
        _ => code,
    }
}
