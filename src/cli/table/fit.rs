//! Which columns a table shows at a width, how wide each is, and texts that are shortened or wrapped to it.

use console::{measure_text_width, truncate_str};

use super::column::{Column, GAP, Narrows};

/// A text column is not narrower than this: columns are left out, or lines become longer instead.
const LAST_MIN: usize = 16;
/// A name is not narrower than this.
const SHORT_MIN: usize = 12;
/// A text that is not the last column is not narrower than this: such as `PARKED → RECEIVED`.
const TEXT_MIN: usize = 24;

/// The columns that are shown, each by its index and width.
pub(super) struct Fitting(Vec<(usize, usize)>);

impl Fitting {
    /// Without a width everything is shown. Where the columns are wider than that, the empty ones are left out first.
    pub(super) fn of(
        columns: &[Column],
        natural: &[usize],
        width: Option<usize>,
        wraps: bool,
        is_empty: &dyn Fn(usize) -> bool,
    ) -> Fitting {
        let mut shown: Vec<usize> = (0..columns.len()).collect();
        let Some(width) = width else {
            return Fitting(shown.into_iter().zip(natural.iter().copied()).collect());
        };
        if !wraps {
            let gaps = GAP * shown.len().saturating_sub(1);
            if natural.iter().sum::<usize>() + gaps > width {
                shown.retain(|at| !is_empty(*at));
            }
            while least(columns, natural, &shown) > width {
                let first = shown.iter().copied().filter(|at| columns[*at].leaves > 0);
                let Some(first) = first.min_by_key(|at| columns[*at].leaves) else { break };
                shown.retain(|at| *at != first);
            }
        }
        let mut widths: Vec<usize> = shown.iter().map(|at| natural[*at]).collect();
        narrow(columns, &shown, &mut widths, width);
        Fitting(shown.into_iter().zip(widths).collect())
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = (usize, usize)> {
        self.0.iter().copied()
    }

    pub(super) fn has(&self, column: usize) -> bool {
        self.0.iter().any(|(at, _)| *at == column)
    }

    pub(super) fn is_last(&self, column: usize) -> bool {
        self.0.last().is_some_and(|(at, _)| *at == column)
    }
}

/// The least width of a column; `last` gets the rest of a line.
fn least_of(column: Column, natural: usize, last: bool) -> usize {
    match column.narrows {
        Narrows::Never => natural,
        Narrows::Middle | Narrows::End if last => natural.min(LAST_MIN),
        Narrows::Middle => natural.min(SHORT_MIN),
        Narrows::End => natural.min(TEXT_MIN),
    }
}

/// The least width of these columns together.
fn least(columns: &[Column], natural: &[usize], shown: &[usize]) -> usize {
    let last = shown.last();
    let gaps = GAP * shown.len().saturating_sub(1);
    shown.iter().map(|at| least_of(columns[*at], natural[*at], Some(at) == last)).sum::<usize>() + gaps
}

/// Narrows the widest columns by what the terminal lacks, the last one only after the others; then the last one gets what is
/// left.
fn narrow(columns: &[Column], shown: &[usize], widths: &mut [usize], width: usize) {
    let Some(last) = shown.len().checked_sub(1) else { return };
    let natural = widths.to_vec();
    let can = |at: usize, wide: usize| wide > least_of(columns[shown[at]], natural[at], at == last);
    loop {
        let others: usize = widths[..last].iter().map(|wide| wide + GAP).sum();
        if others + natural[last].min(LAST_MIN) <= width {
            break;
        }
        let widest = (0..last).filter(|at| can(*at, widths[*at])).max_by_key(|at| widths[*at]);
        let Some(widest) = widest else { break };
        widths[widest] -= 1;
    }
    let others: usize = widths[..last].iter().map(|wide| wide + GAP).sum();
    let floor = least_of(columns[shown[last]], natural[last], true);
    widths[last] = natural[last].min(width.saturating_sub(others).max(floor));
}

/// A text that is too long for its column: without its end, or without its middle, so that both ends stay, which distinguish
/// names.
pub(super) fn shortened(text: &str, room: usize, without_end: bool) -> String {
    if measure_text_width(text) <= room {
        return text.to_owned();
    }
    if without_end {
        return truncate_str(text, room, "…").into_owned();
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

/// A text in lines of this width, broken at spaces, and within a word only where the word alone is wider. At least one line.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    if measure_text_width(text) <= width {
        return vec![text.to_owned()];
    }
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        let gap = usize::from(!line.is_empty());
        if measure_text_width(&line) + gap + measure_text_width(word) > width && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if measure_text_width(&line) + measure_text_width(c.encode_utf8(&mut [0; 4])) > width
                && !line.is_empty()
            {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines
}
