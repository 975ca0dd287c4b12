//! Output: standard output and standard error, with colours and the width of a terminal, or plain elsewhere.

use std::io::{self, ErrorKind, IsTerminal as _};
use std::sync::OnceLock;

use clap::ValueEnum;
use console::{Style, Term};
use prost::Message;

use super::json;
use super::problem::{Exit, Problem};
use super::stderr::print_stderr;
use crate::common::patient_write::write_all;

/// The first error of standard output.
static REFUSED: OnceLock<io::Error> = OnceLock::new();

/// When to use colours.
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

/// The meaning of a text's colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextStyle {
    Plain,
    Good,
    Doubtful,
    Bad,
    Faint,
    Strong,
}

/// How a command prints its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
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
    /// A terminal of this many columns, for tests.
    #[cfg(test)]
    Columns(usize),
}

/// A terminal with fewer columns shows how long ago an instant was, in place of the instant.
const INSTANTS_FROM: usize = 120;

impl Output {
    pub(crate) fn new(json: bool, color: Color, wide: bool) -> Output {
        let terminal = io::stdout().is_terminal();
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let colors = match color {
            Color::Auto => terminal && !set("NO_COLOR") && !dumb,
            Color::Always => true,
            Color::Never => false,
        };
        let tables = if wide { Tables::Wide } else { Tables::Fitted };
        Output { json, colors, terminal, tables, unread: Unread::GoesOn }
    }

    /// Output without colours, for machines.
    pub(crate) fn plain() -> Output {
        Output { json: false, colors: false, terminal: false, tables: Tables::Wide, unread: Unread::GoesOn }
    }

    /// Output of a terminal with this many columns, without colours.
    #[cfg(test)]
    pub(crate) fn of_width(columns: usize) -> Output {
        Output { terminal: true, tables: Tables::Columns(columns), ..Output::plain() }
    }

    /// Output of a command that only lists, page after page: a standard output that is closed or full ends
    /// it. Every other command goes on to its end, and exits as if its answer had been read.
    pub(crate) fn listing(self) -> Output {
        Output { unread: Unread::Ends, ..self }
    }

    /// Whether the answer is JSON, for machines.
    pub(crate) fn json(self) -> bool {
        self.json
    }

    /// Whether standard output is a terminal.
    pub(crate) fn terminal(self) -> bool {
        self.terminal
    }

    /// The number of columns; `None` if the width is not limited.
    pub(crate) fn width(self) -> Option<usize> {
        match self.tables {
            Tables::Fitted if self.terminal => {
                Term::stdout().size_checked().map(|(_, columns)| usize::from(columns))
            }
            Tables::Fitted | Tables::Wide => None,
            #[cfg(test)]
            Tables::Columns(columns) => Some(columns),
        }
    }

    /// Whether lists show ages in place of instants, to fit the terminal.
    pub(crate) fn is_narrow(self) -> bool {
        self.width().is_some_and(|width| width < INSTANTS_FROM)
    }

    /// A text in its colour, if colours are used.
    pub(crate) fn styled(self, text: &str, style: TextStyle) -> String {
        let base = Style::new().force_styling(self.colors);
        let styled = match style {
            _ if text.is_empty() => return String::new(),
            TextStyle::Plain => return text.to_owned(),
            TextStyle::Good => base.green(),
            TextStyle::Doubtful => base.yellow(),
            TextStyle::Bad => base.red(),
            TextStyle::Faint => base.dim(),
            TextStyle::Strong => base.bold(),
        };
        styled.apply_to(text).to_string()
    }

    /// Prints a line of the answer. JSON is escaped so that it cannot affect a terminal.
    pub(crate) fn line(self, text: &str) -> Result<(), Problem> {
        let line = if self.json { json::harmless(text) } else { text.into() };
        self.bytes(format!("{line}\n").as_bytes())
    }

    /// Prints a part of the answer unchanged.
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

    /// Prints a message as canonical proto3 JSON, in one line.
    pub(crate) fn message<M: Message>(self, name: &str, message: &M) -> Result<(), Problem> {
        self.line(&json::text(name, message)?)
    }

    /// Prints a note on standard error, for people only.
    pub(crate) fn note(self, text: &str) {
        if !self.json {
            self.stderr(text);
        }
    }

    /// Prints a line on standard error, also in JSON mode.
    #[allow(clippy::unused_self, reason = "a method, like the other ways to print")]
    pub(crate) fn stderr(self, text: &str) {
        print_stderr(text);
    }
}

/// The exit code after an error of standard output. A closed one is not an error: its reader needs no more. A
/// full one makes a successful command fail, since its answer is lost.
pub(crate) fn ended(exit: Exit) -> Exit {
    let Some(error) = REFUSED.get().filter(|error| error.kind() != ErrorKind::BrokenPipe) else {
        return exit;
    };
    let done = if exit == Exit::Done { "; the command was carried out, and its answer is lost" } else { "" };
    print_stderr(&format!("error: standard output: {error}{done}"));
    if exit == Exit::Done { Exit::Failed } else { exit }
}
