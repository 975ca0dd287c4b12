//! Aligned columns. The last one gets the rest of the terminal's width.

use console::{measure_text_width, truncate_str};

use super::output::{Output, TextStyle};
use super::problem::Problem;

const GAP: usize = 2;
/// The last column is never narrower than this: lines wrap instead.
const LAST_MIN: usize = 16;
/// Other columns are not narrower than this.
const SHORT_MIN: usize = 12;

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
    rows: Vec<Vec<Cell>>,
    indent: &'static str,
}

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Table {
        let headings = headings.iter().map(|word| Cell::new(*word, TextStyle::Faint)).collect();
        Table { rows: vec![headings], indent: "" }
    }

    /// Rows without headings.
    pub(crate) fn bare() -> Table {
        Table { rows: Vec::new(), indent: "" }
    }

    pub(crate) fn indented(self) -> Table {
        Table { indent: "  ", ..self }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    pub(crate) fn lines(&self, output: Output) -> Vec<String> {
        self.fitted(output, output.width())
    }

    pub(crate) fn print(&self, output: Output) -> Result<(), Problem> {
        self.lines(output).iter().try_for_each(|line| output.line(line))
    }

    fn fitted(&self, output: Output, width: Option<usize>) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| measure_text_width(&cell.text)).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..columns).map(widest).collect();
        if let Some(width) = width {
            narrow(&mut widths, width.saturating_sub(self.indent.len()));
        }
        let line = |row: &Vec<Cell>| {
            let mut line = self.indent.to_owned();
            let mut used = self.indent.len();
            for (column, cell) in row.iter().enumerate() {
                if column + 1 == columns {
                    let room = width.map_or(usize::MAX, |width| width.saturating_sub(used).max(LAST_MIN));
                    line.push_str(&output.styled(&truncate_str(&cell.text, room, "…"), cell.style));
                    continue;
                }
                let wide = widths.get(column).copied().unwrap_or(0);
                let text = shortened(&cell.text, wide);
                let pad = wide.saturating_sub(measure_text_width(&text)) + GAP;
                line.push_str(&output.styled(&text, cell.style));
                line.push_str(&" ".repeat(pad));
                used += wide + GAP;
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

/// Narrows the widest columns, except for the last one, by what the terminal lacks.
fn narrow(widths: &mut [usize], width: usize) {
    let Some((last, others)) = widths.split_last_mut() else { return };
    loop {
        let used = others.iter().map(|wide| wide + GAP).sum::<usize>() + (*last).min(LAST_MIN);
        let widest = others.iter_mut().max();
        match widest {
            Some(widest) if used > width && *widest > SHORT_MIN => *widest -= 1,
            Some(_) | None => return,
        }
    }
}

/// A text without its middle, so that both ends stay, which distinguish names.
fn shortened(text: &str, room: usize) -> String {
    if measure_text_width(text) <= room {
        return text.to_owned();
    }
    let (mut head, mut tail) = (String::new(), String::new());
    let half = room.saturating_sub(1) / 2;
    for c in text.chars() {
        head.push(c);
        if measure_text_width(&head) > room - 1 - half {
            head.pop();
            break;
        }
    }
    for c in text.chars().rev() {
        tail.insert(0, c);
        if measure_text_width(&tail) > half {
            tail.remove(0);
            break;
        }
    }
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_middle_on_a_narrow_terminal() {
        let mut table = Table::new(&["STATE", "ID", "ERROR"]);
        table.row(vec!["PARKED".into(), "order-0123456789-0123456789-end".into(), "no".into()]);
        let lines = table.fitted(Output::plain(), Some(40));
        assert_eq!(lines[1], "PARKED  order-012345…23456789-end  no", "{lines:?}");
        assert!(table.fitted(Output::plain(), None)[1].contains("order-0123456789-0123456789-end"));
        assert_eq!(shortened("世界世界世界", 7), "世…界");
    }

    #[test]
    fn columns_are_aligned_by_visible_width() {
        let mut table = Table::new(&["A", "B"]);
        table.row(vec!["世界".into(), "x".into()]);
        table.row(vec!["a".into(), "a long text that does not fit".into()]);
        let lines = table.fitted(Output::plain(), Some(22));
        assert_eq!(lines, ["A     B", "世界  x", "a     a long text tha…"]);
        assert_eq!(table.fitted(Output::plain(), None)[2], "a     a long text that does not fit");
    }
}
