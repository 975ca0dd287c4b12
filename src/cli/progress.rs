//! How far a long operation is: a bar on a terminal, else a plain line every few seconds.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use super::screen::Screen;

const LINE_EVERY: Duration = Duration::from_secs(5);

/// A progress that is shown on standard error, and to people only.
pub(super) struct Progress {
    screen: Screen,
    bar: Option<ProgressBar>,
    last_line_at: Instant,
}

impl Progress {
    pub(super) fn new(screen: Screen) -> Progress {
        let shown = !screen.json() && io::stderr().is_terminal();
        let bar = shown.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:30} {percent:>3}% {msg} {elapsed}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Progress { screen, bar, last_line_at: Instant::now() }
    }

    pub(super) fn at(&mut self, done: u64, all: u64, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
            bar.set_length(all.max(done));
            bar.set_position(done);
        } else if self.last_line_at.elapsed() >= LINE_EVERY {
            self.last_line_at = Instant::now();
            self.screen.note(text);
        }
    }

    /// Says something without tearing the bar.
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
