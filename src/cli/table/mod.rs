//! Aligned columns, fitted to the width of a terminal. In a list names lose their middle first, then whole columns are left out:
//! an instant or a number is never cut, since the rest of it would be read as another one. Where everything must be shown,
//! fields wrap instead.

mod column;
mod fit;

use std::sync::atomic::{AtomicBool, Ordering};

use console::measure_text_width;

use self::column::{GAP, Narrows};
use self::fit::{Fitting, shortened, wrapped};
use super::output::{Output, TextStyle};
use super::problem::Problem;

pub(crate) use self::column::Column;
pub(crate) use self::fit::wrapped as wrapped_text;

/// The width of a value that stands for a column that is left out.
const VALUE_MAX: usize = 24;
/// The indentation of a text below a row, and of its further lines.
const BELOW: &str = "  ";
const BELOW_MORE: &str = "    ";

/// Whether this process has named the option that shows everything: a list of many pages names it one time.
static NAMED: AtomicBool = AtomicBool::new(false);

/// A field: its text, already cleaned, and its style.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: TextStyle,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>, style: TextStyle) -> Cell {
        Cell { text: text.into(), style }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::new(text, TextStyle::Plain)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::new(text, TextStyle::Plain)
    }
}

/// Rows below their headings.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    headed: bool,
    rows: Vec<Vec<Cell>>,
    /// Texts below a row, by its index: they wrap, so that nothing of them is cut.
    below: Vec<(usize, String)>,
    indent: &'static str,
    wraps: bool,
}

/// The lines of a table at some width, and what of it they do not show.
#[derive(Debug, Default)]
pub(crate) struct FittedTable {
    pub(crate) lines: Vec<String>,
    /// The columns that are left out, each with its value if all rows have the same one.
    left_out: Vec<String>,
    shortened: bool,
    width: Option<usize>,
}

impl FittedTable {
    /// What the lines do not show, and the option that shows it. Empty if they show everything.
    pub(crate) fn note(&self) -> Vec<String> {
        let width = self.width.unwrap_or(usize::MAX);
        if !self.left_out.is_empty() {
            return wrapped(&format!("left out here: {}; --wide shows all", self.left_out.join(", ")), width);
        }
        if self.shortened {
            wrapped("shortened to the terminal's width; --wide shows all", width)
        } else {
            Vec::new()
        }
    }
}

impl Table {
    /// Columns of texts.
    pub(crate) fn new(headings: &[&'static str]) -> Table {
        let columns: Vec<Column> = headings.iter().map(|heading| Column::name(heading)).collect();
        Table::of(&columns)
    }

    pub(crate) fn of(columns: &[Column]) -> Table {
        Table {
            columns: columns.to_vec(),
            headed: true,
            rows: Vec::new(),
            below: Vec::new(),
            indent: "",
            wraps: false,
        }
    }

    /// Names and values, without headings: the values wrap.
    pub(crate) fn fields() -> Table {
        Table::of(&[Column::whole(""), Column::text("")]).without_headings().wrapping()
    }

    /// A further page of a list.
    pub(crate) fn without_headings(self) -> Table {
        Table { headed: false, ..self }
    }

    pub(crate) fn indented(self) -> Table {
        Table { indent: "  ", ..self }
    }

    /// Shows everything: a text that does not fit goes on in the next line of its column.
    pub(crate) fn wrapping(self) -> Table {
        Table { wraps: true, ..self }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// A text below the last row, in separate lines.
    pub(crate) fn below(&mut self, text: String) {
        self.below.push((self.rows.len().saturating_sub(1), text));
    }

    pub(crate) fn lines(&self, output: Output) -> Vec<String> {
        self.fitted(output, output.width()).lines
    }

    /// Prints it. The first table that does not show everything is followed by a note.
    pub(crate) fn print(&self, output: Output) -> Result<(), Problem> {
        let fitted = self.fitted(output, output.width());
        fitted.lines.iter().try_for_each(|line| output.line(line))?;
        let note = fitted.note();
        if !note.is_empty() && !NAMED.swap(true, Ordering::Relaxed) {
            for line in &note {
                output.note(line);
            }
        }
        Ok(())
    }

    pub(crate) fn fitted(&self, output: Output, width: Option<usize>) -> FittedTable {
        let room = width.map(|width| width.saturating_sub(self.indent.len()));
        let fitting = Fitting::of(&self.columns, &self.natural(), room, self.wraps, &|at| self.is_empty(at));
        let mut fitted = FittedTable { width, ..FittedTable::default() };
        // An empty column shows nothing, so that nothing of it is left out.
        for at in (0..self.columns.len()).filter(|at| !fitting.has(*at) && !self.is_empty(*at)) {
            fitted.left_out.push(self.left_out(at));
        }
        if self.headed {
            let headings: Vec<Cell> =
                self.columns.iter().map(|column| Cell::new(column.heading, TextStyle::Faint)).collect();
            self.push(&mut fitted, &fitting, output, &headings);
        }
        for (at, row) in self.rows.iter().enumerate() {
            self.push(&mut fitted, &fitting, output, row);
            for (_, text) in self.below.iter().filter(|(row, _)| *row == at) {
                let lines = wrapped(text, room.unwrap_or(usize::MAX).saturating_sub(BELOW_MORE.len()));
                let indented = lines.iter().enumerate().map(|(nth, line)| {
                    format!("{}{}{line}", self.indent, if nth == 0 { BELOW } else { BELOW_MORE })
                });
                fitted.lines.extend(indented);
            }
        }
        fitted
    }

    /// The width of each column if nothing is cut.
    fn natural(&self) -> Vec<usize> {
        let widest = |(at, column): (usize, &Column)| {
            let heading = if self.headed { measure_text_width(column.heading) } else { 0 };
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| measure_text_width(&cell.text)).max().unwrap_or(0).max(heading)
        };
        self.columns.iter().enumerate().map(widest).collect()
    }

    /// Whether the rows have no text in a column.
    fn is_empty(&self, at: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(at));
        !self.rows.is_empty() && cells.all(|cell| cell.text.is_empty())
    }

    /// A column that is left out, for people.
    fn left_out(&self, at: usize) -> String {
        let heading = self.columns.get(at).map_or("", |column| column.heading);
        let mut values = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| &cell.text);
        match values.next() {
            Some(first) if values.all(|value| value == first) => {
                format!("{heading} ({})", shortened(first, VALUE_MAX, false))
            }
            Some(_) | None => heading.to_owned(),
        }
    }

    /// Adds a row: one line, or several where its fields wrap.
    fn push(&self, fitted: &mut FittedTable, fitting: &Fitting, output: Output, row: &[Cell]) {
        let mut fields: Vec<(usize, TextStyle, Vec<String>)> = Vec::new();
        for (at, wide) in fitting.columns() {
            let Some(cell) = row.get(at) else { continue };
            let texts = if self.wraps {
                wrapped(&cell.text, wide)
            } else {
                let ends = self.columns.get(at).is_some_and(|column| column.narrows == Narrows::End);
                let text = shortened(&cell.text, wide, ends || fitting.is_last(at));
                fitted.shortened |= text != cell.text;
                vec![text]
            };
            fields.push((wide, cell.style, texts));
        }
        // Nothing follows the last field, which may be long.
        if let Some((wide, ..)) = fields.last_mut() {
            *wide = 0;
        }
        let height = fields.iter().map(|(.., texts)| texts.len()).max().unwrap_or(0);
        for nth in 0..height {
            let mut line = self.indent.to_owned();
            for (wide, style, texts) in &fields {
                let text = texts.get(nth).map_or("", String::as_str);
                line.push_str(&output.styled(text, *style));
                let pad = wide.saturating_sub(measure_text_width(text)) + GAP;
                line.push_str(&" ".repeat(pad));
            }
            fitted.lines.push(line.trim_end().to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
