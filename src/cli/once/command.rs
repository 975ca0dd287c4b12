//! The command: its process, its process group, and its output.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::common::patient_write::write_all;

/// How long the output is awaited after the command has ended: a process that it left running may hold the
/// pipe open.
const OUTPUT_WITHIN: Duration = Duration::from_secs(2);
const READ_AT_ONCE: usize = 64 * 1_024;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Code(u8),
    Signal(i32),
}

/// The beginning of the output, and the number of all its bytes.
#[derive(Default)]
pub(super) struct CommandOutput {
    pub(super) head: Vec<u8>,
    pub(super) bytes: u64,
}

/// A started command. Only its owner reaps it, so that no signal reaches another process with the same id.
pub(super) struct Running {
    child: Child,
    /// The command leads its own process group.
    own_group: bool,
    pub(super) ended: oneshot::Receiver<()>,
    output: Arc<Mutex<CommandOutput>>,
    output_ended: oneshot::Receiver<()>,
}

impl Running {
    /// Starts the command. The first `head_max` bytes of its output are kept; all of it goes to standard
    /// output.
    ///
    /// With a terminal as standard input the command stays in the terminal's process group: otherwise it
    /// could not read from the terminal. Without one it gets its own group, so that signals also reach the
    /// processes that it starts.
    pub(super) fn start(
        words: &[OsString],
        environment: &[(&str, String)],
        head_max: usize,
    ) -> io::Result<Running> {
        let [program, arguments @ ..] = words else { return Err(io::ErrorKind::NotFound.into()) };
        let own_group = !io::stdin().is_terminal();
        let mut command = Command::new(program);
        command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdout(Stdio::piped());
        if own_group {
            command.process_group(0);
        }
        let mut child = command.spawn()?;
        let output = Arc::new(Mutex::new(CommandOutput::default()));
        let (tell_output, output_ended) = oneshot::channel();
        if let Some(from) = child.stdout.take() {
            let kept = Arc::clone(&output);
            thread::spawn(move || {
                copy(from, &kept, head_max);
                let _gone = tell_output.send(());
            });
        }
        let (tell, ended) = oneshot::channel();
        let pid = pid(&child);
        thread::spawn(move || {
            wait(pid);
            let _gone = tell.send(());
        });
        Ok(Running { child, own_group, ended, output, output_ended })
    }

    /// Sends a signal to the command and to the processes that it has started.
    pub(super) fn signal(&self, number: Signal) {
        let Some(pid) = pid(&self.child) else { return };
        // It may have ended already.
        let _gone = if self.own_group { kill_process_group(pid, number) } else { kill_process(pid, number) };
    }

    /// Passes on a signal of this process, if the command does not have it already.
    pub(super) fn pass_on(&self, number: Signal) {
        if is_passed_on(self.own_group, number) {
            self.signal(number);
        }
    }

    /// How the command ended, and its output. To be called after `ended` was received.
    pub(super) async fn outcome(mut self) -> (Ended, CommandOutput) {
        let _left_behind = timeout(OUTPUT_WITHIN, self.output_ended).await;
        let status = self.child.wait();
        let code = status.as_ref().ok().and_then(std::process::ExitStatus::code);
        let ended = match (code, status.as_ref().ok().and_then(std::process::ExitStatus::signal)) {
            (Some(code), _) => Ended::Code(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, number) => Ended::Signal(number.unwrap_or_default()),
        };
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        (ended, std::mem::take(&mut *output))
    }
}

/// Whether the command gets a signal from this process only. A command without its own group is at a terminal, which sends the signals
/// of its keys to the whole group.
fn is_passed_on(own_group: bool, number: Signal) -> bool {
    own_group || ![Signal::INT, Signal::QUIT].contains(&number)
}

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// Waits until a process has ended, without reaping it.
fn wait(pid: Option<Pid>) {
    let Some(pid) = pid else { return };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(pid), options).is_err_and(|error| error == Errno::INTR) {}
}

/// Copies the output. A standard output that is closed or full does not stop the command.
fn copy(mut from: ChildStdout, kept: &Mutex<CommandOutput>, head_max: usize) {
    let (mut buffer, mut is_read) = (vec![0; READ_AT_ONCE], true);
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let bytes = &buffer[..count];
        {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.bytes += count as u64;
            let room = head_max.saturating_sub(kept.head.len()).min(count);
            kept.head.extend_from_slice(&bytes[..room]);
        }
        is_read = is_read && write_all(&mut io::stdout().lock(), &mut &*bytes).is_ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_of_the_terminals_keys_are_not_sent_twice() {
        for (number, at_a_terminal) in
            [(Signal::HUP, true), (Signal::INT, false), (Signal::QUIT, false), (Signal::TERM, true)]
        {
            assert!(is_passed_on(true, number), "{number:?}");
            assert_eq!(is_passed_on(false, number), at_a_terminal, "{number:?}");
        }
    }
}
