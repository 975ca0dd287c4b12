//! One run of a suite: its size and its seed, its progress, what it leaves behind when it fails.
//!
//! `tests/prove` sets `LEDGER_PROOF_SIZE`, `LEDGER_PROOF_SEED` and `LEDGER_PROOF_PROGRESS`; without
//! them a suite runs its small size with a seed of its own choice, which a failure names.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A run of one suite.
pub(crate) struct Run {
    pub(crate) suite: &'static str,
    pub(crate) size: u64,
    pub(crate) seed: u64,
    started: Instant,
    last: Option<Instant>,
    loud: bool,
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, must be a number")))
}

impl Run {
    /// `small` is the size of each test run.
    #[allow(clippy::disallowed_methods, reason = "the seed itself; it is told")]
    pub(crate) fn new(suite: &'static str, small: u64) -> Run {
        let fresh = || u64::from_be_bytes(uuid::Uuid::new_v4().as_bytes()[..8].try_into().unwrap()) >> 33;
        Run {
            suite,
            size: number("LEDGER_PROOF_SIZE").unwrap_or(small),
            seed: number("LEDGER_PROOF_SEED").unwrap_or_else(fresh),
            started: Instant::now(),
            last: None,
            loud: std::env::var_os("LEDGER_PROOF_PROGRESS").is_some(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Says how far the run is, every two seconds at most, where somebody looks.
    pub(crate) fn progress(&mut self, done: u64, besides: impl Display) {
        if !self.loud || self.last.is_some_and(|last| last.elapsed() < Duration::from_secs(2)) {
            return;
        }
        self.last = Some(Instant::now());
        let percent = done.saturating_mul(100) / self.size.max(1);
        eprintln!("{}: {done} of {} ({percent} %), {:.0?}; {besides}", self.suite, self.size, self.elapsed());
    }

    /// The line that the table of large runs quotes.
    pub(crate) fn summary(&self, what: impl Display) {
        println!(
            "SUMMARY {}: seed {}, {:.1} s: {what}; 0 violations",
            self.suite,
            self.seed,
            self.elapsed().as_secs_f64()
        );
    }

    /// Ends the test: leaves the evidence in a folder, and says how to replay it.
    pub(crate) fn fail(&self, problem: impl Display, evidence: &[(&str, String)]) -> ! {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{}", self.suite, self.seed));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("problem"), format!("{problem}\n")).unwrap();
        for (name, content) in evidence {
            std::fs::write(folder.join(name), content).unwrap();
        }
        panic!(
            "{problem}\nevidence: {}\nreplay: tests/prove {} --size {} --seed {}",
            folder.display(),
            self.suite,
            self.size,
            self.seed
        );
    }
}
