//! The progress of a long operation: a bar on a terminal, otherwise a plain line every few seconds.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use super::output::Output;

const LINE_EVERY: Duration = Duration::from_secs(5);

/// A progress on standard error, for people only.
pub(super) struct OperationProgress {
    output: Output,
    bar: Option<ProgressBar>,
    last_line_at: Instant,
}

impl OperationProgress {
    pub(super) fn new(output: Output) -> OperationProgress {
        let shown = !output.json() && io::stderr().is_terminal();
        let bar = shown.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:30} {percent:>3}% {msg} {elapsed}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        OperationProgress { output, bar, last_line_at: Instant::now() }
    }

    pub(super) fn at(&mut self, done: u64, all: u64, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
            bar.set_length(all.max(done));
            bar.set_position(done);
        } else if self.last_line_at.elapsed() >= LINE_EVERY {
            self.last_line_at = Instant::now();
            self.output.note(text);
        }
    }

    /// Prints without tearing the bar.
    pub(super) fn print(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    pub(super) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
