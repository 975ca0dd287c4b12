//! Aligned columns. The last one takes what the terminal leaves it.

use console::{measure_text_width, truncate_str};

use super::problem::Problem;
use super::screen::{Screen, Tone};

const GAP: usize = 2;
/// The last column is never shorter than this: lines wrap rather.
const LAST_MIN: usize = 16;
/// Nor are columns shortened below this.
const SHORT_MIN: usize = 12;

/// A field: its text, cleaned before, and its colour.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Cell {
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
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
    indent: &'static str,
}

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Table {
        let headings = headings.iter().map(|word| Cell::new(*word, Tone::Faint)).collect();
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

    pub(crate) fn lines(&self, screen: Screen) -> Vec<String> {
        self.fitted(screen, screen.width())
    }

    pub(crate) fn print(&self, screen: Screen) -> Result<(), Problem> {
        self.lines(screen).iter().try_for_each(|line| screen.line(line))
    }

    fn fitted(&self, screen: Screen, width: Option<usize>) -> Vec<String> {
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
                    line.push_str(&screen.toned(&truncate_str(&cell.text, room, "…"), cell.tone));
                    continue;
                }
                let wide = widths.get(column).copied().unwrap_or(0);
                let text = shortened(&cell.text, wide);
                let pad = wide.saturating_sub(measure_text_width(&text)) + GAP;
                line.push_str(&screen.toned(&text, cell.tone));
                line.push_str(&" ".repeat(pad));
                used += wide + GAP;
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

/// Takes from the widest columns, but for the last one, what the terminal does not have.
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

/// A text with its middle left out, so that both ends, which tell names apart, are seen.
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
    fn long_names_lose_their_middle_where_the_terminal_is_narrow() {
        let mut table = Table::new(&["STATE", "ID", "ERROR"]);
        table.row(vec!["PARKED".into(), "order-0123456789-0123456789-end".into(), "no".into()]);
        let lines = table.fitted(Screen::plain(), Some(40));
        assert_eq!(lines[1], "PARKED  order-012345…23456789-end  no", "{lines:?}");
        assert!(table.fitted(Screen::plain(), None)[1].contains("order-0123456789-0123456789-end"));
        assert_eq!(shortened("世界世界世界", 7), "世…界");
    }

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
