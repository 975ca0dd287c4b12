//! The signals to this process. The first one is passed on to the command; the second one ends everything.

use std::fs::read_to_string;
use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

const PASSED_ON: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
/// Signals that wait to be passed on. More than two have the effect of two.
const WAITING_MAX: usize = 4;

/// The signals since the start of the process.
pub(super) struct Signals {
    arriving: mpsc::Receiver<Signal>,
    received: u32,
    first: Option<Signal>,
}

impl Signals {
    /// Installs the handlers. A signal that was ignored at the start (`nohup`, a shell's background job)
    /// stays ignored.
    pub(super) fn take_over() -> io::Result<Signals> {
        let (arrived, arriving) = mpsc::channel(WAITING_MAX);
        let status = read_to_string("/proc/self/status").unwrap_or_default();
        for number in PASSED_ON.into_iter().filter(|number| !is_ignored(&status, *number)) {
            let mut stream = signal(SignalKind::from_raw(number.as_raw()))?;
            let arrived = arrived.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() {
                    let _enough = arrived.try_send(number);
                }
            });
        }
        Ok(Signals { arriving, received: 0, first: None })
    }

    /// The next signal; pending forever if no signal can arrive any more.
    pub(super) async fn next(&mut self) -> Signal {
        let Some(number) = self.arriving.recv().await else { return std::future::pending().await };
        self.received += 1;
        self.first.get_or_insert(number);
        number
    }

    /// Waits for the signal that ends everything: the second one.
    pub(super) async fn second(&mut self) -> Signal {
        loop {
            let number = self.next().await;
            if self.end() {
                return number;
            }
        }
    }

    /// Whether the second signal has arrived.
    pub(super) fn end(&self) -> bool {
        self.received >= 2
    }

    /// The first signal, if it arrived already.
    pub(super) fn first(&mut self) -> Option<Signal> {
        if let Ok(number) = self.arriving.try_recv() {
            self.received += 1;
            self.first.get_or_insert(number);
        }
        self.first
    }
}

/// Whether a process with this `/proc/self/status` ignores a signal.
fn is_ignored(status: &str, number: Signal) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & (1 << (number.as_raw() - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_ignored_reads_the_mask() {
        let status = "Name:\tx\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        let ignored = PASSED_ON.map(|number| is_ignored(status, number));
        assert_eq!(ignored, [true, false, false, false]);
        assert!(!is_ignored("", Signal::HUP));
    }
}
