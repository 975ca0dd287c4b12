//! Aligned columns. The last one takes what the terminal leaves it.

use console::{measure_text_width, truncate_str};

use super::problem::Problem;
use super::screen::{Screen, Tone};

const GAP: usize = 2;
/// The last column is never shorter than this: lines wrap rather.
const LAST_MIN: usize = 16;

/// A field: its text, cleaned before, and its colour.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: text.into(), tone }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::new(text, Tone::Plain)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::new(text, Tone::Plain)
    }
}

/// Rows below their headings.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<Cell>>,
    indent: &'static str,
}

impl Table {
    pub(super) fn new(headings: &[&str]) -> Table {
        let headings = headings.iter().map(|word| Cell::new(*word, Tone::Faint)).collect();
        Table { rows: vec![headings], indent: "" }
    }

    /// Rows without headings.
    pub(super) fn bare() -> Table {
        Table { rows: Vec::new(), indent: "" }
    }

    pub(super) fn indented(self) -> Table {
        Table { indent: "  ", ..self }
    }

    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    pub(super) fn lines(&self, screen: Screen) -> Vec<String> {
        self.fitted(screen, screen.width())
    }

    pub(super) fn print(&self, screen: Screen) -> Result<(), Problem> {
        self.lines(screen).iter().try_for_each(|line| screen.line(line))
    }

    fn fitted(&self, screen: Screen, width: Option<usize>) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| measure_text_width(&cell.text)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let line = |row: &Vec<Cell>| {
            let mut line = self.indent.to_owned();
            let mut used = self.indent.len();
            for (column, cell) in row.iter().enumerate() {
                if column + 1 == columns {
                    let room = width.map_or(usize::MAX, |width| width.saturating_sub(used).max(LAST_MIN));
                    line.push_str(&screen.toned(&truncate_str(&cell.text, room, "…"), cell.tone));
                    continue;
                }
                let wide = widths.get(column).copied().unwrap_or(0);
                let pad = wide.saturating_sub(measure_text_width(&cell.text)) + GAP;
                line.push_str(&screen.toned(&cell.text, cell.tone));
                line.push_str(&" ".repeat(pad));
                used += wide + GAP;
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let mut table = Table::new(&["A", "B"]);
        table.row(vec!["世界".into(), "x".into()]);
        table.row(vec!["a".into(), "a long text that does not fit".into()]);
        let lines = table.fitted(Screen::plain(), Some(22));
        assert_eq!(lines, ["A     B", "世界  x", "a     a long text tha…"]);
        assert_eq!(table.fitted(Screen::plain(), None)[2], "a     a long text that does not fit");
    }
}
