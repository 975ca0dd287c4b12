//! Standard output and error: colours and width of a terminal, and nothing of both elsewhere.

use std::io::{self, ErrorKind, IsTerminal as _};
use std::sync::OnceLock;

use clap::ValueEnum;
use console::{Style, Term};
use prost::Message;

use super::aside::aside;
use super::json;
use super::problem::{Exit, Problem};
use crate::common::patient_write::write_all;

/// Why standard output was refused first.
static REFUSED: OnceLock<io::Error> = OnceLock::new();

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What a text tells by its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Doubtful,
    Bad,
    Faint,
    Strong,
}

/// Where a command says what it has to say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    json: bool,
    colors: bool,
    terminal: bool,
    tables: Tables,
    unread: Unread,
}

/// What a standard output that is closed or full does to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    GoesOn,
    Ends,
}

/// How wide tables are on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tables {
    Fitted,
    Wide,
}

impl Screen {
    pub(crate) fn new(json: bool, color: Color, wide: bool) -> Screen {
        let terminal = io::stdout().is_terminal();
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let colors = match color {
            Color::Auto => terminal && !set("NO_COLOR") && !dumb,
            Color::Always => true,
            Color::Never => false,
        };
        let tables = if wide { Tables::Wide } else { Tables::Fitted };
        Screen { json, colors, terminal, tables, unread: Unread::GoesOn }
    }

    /// Without colours, for machines.
    pub(crate) fn plain() -> Screen {
        Screen { json: false, colors: false, terminal: false, tables: Tables::Wide, unread: Unread::GoesOn }
    }

    /// Of a command that only lists, page after page: a standard output that is closed or full ends it. Every other one
    /// goes on to its end, and exits as if its answer had been read.
    pub(crate) fn listing(self) -> Screen {
        Screen { unread: Unread::Ends, ..self }
    }

    /// Machines read it: JSON.
    pub(crate) fn json(self) -> bool {
        self.json
    }

    /// People read it, on a terminal.
    pub(crate) fn terminal(self) -> bool {
        self.terminal
    }

    /// How many columns there are; none: as many as it takes.
    pub(crate) fn width(self) -> Option<usize> {
        let size =
            (self.terminal && self.tables == Tables::Fitted).then(|| Term::stdout().size_checked()).flatten();
        size.map(|(_, columns)| usize::from(columns))
    }

    /// A text in its colour, if there are colours.
    pub(crate) fn toned(self, text: &str, tone: Tone) -> String {
        let style = Style::new().force_styling(self.colors);
        let style = match tone {
            _ if text.is_empty() => return String::new(),
            Tone::Plain => return text.to_owned(),
            Tone::Good => style.green(),
            Tone::Doubtful => style.yellow(),
            Tone::Bad => style.red(),
            Tone::Faint => style.dim(),
            Tone::Strong => style.bold(),
        };
        style.apply_to(text).to_string()
    }

    /// A line of the answer. JSON is written so that a terminal shows it, and does nothing else with it.
    pub(crate) fn line(self, text: &str) -> Result<(), Problem> {
        let line = if self.json { json::harmless(text) } else { text.into() };
        self.bytes(format!("{line}\n").as_bytes())
    }

    /// A part of the answer as it is.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<(), Problem> {
        if REFUSED.get().is_none()
            && let Err(error) = write_all(&mut io::stdout().lock(), &mut &*bytes)
        {
            drop(REFUSED.set(error));
        }
        match REFUSED.get() {
            Some(_) if self.unread == Unread::Ends => Err(Problem::new(Exit::Done, "")),
            Some(_) | None => Ok(()),
        }
    }

    /// A message as canonical proto3 JSON, in one line.
    pub(crate) fn message<M: Message>(self, name: &str, message: &M) -> Result<(), Problem> {
        self.line(&json::text(name, message)?)
    }

    /// What is said beside the answer, to people only.
    pub(crate) fn note(self, text: &str) {
        if !self.json {
            self.aside(text);
        }
    }

    /// What is said beside the answer, in any case.
    #[allow(clippy::unused_self, reason = "one way to speak")]
    pub(crate) fn aside(self, text: &str) {
        aside(text);
    }
}

/// How a command ends whose answer was refused by standard output. One that was closed has a reader that has seen enough;
/// one that is full makes a failure of what was done otherwise, since its answer is lost.
pub(crate) fn ended(exit: Exit) -> Exit {
    let Some(error) = REFUSED.get().filter(|error| error.kind() != ErrorKind::BrokenPipe) else {
        return exit;
    };
    let done = if exit == Exit::Done { "; the command was carried out, and its answer is lost" } else { "" };
    aside(&format!("error: standard output: {error}{done}"));
    if exit == Exit::Done { Exit::Failed } else { exit }
}
