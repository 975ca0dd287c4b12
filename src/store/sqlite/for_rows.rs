//! Statements with several rows. A round trip to the connection's thread takes longer than writing most rows, so that rows are
//! sent together.

/// The maximum number of rows of one statement.
pub(super) const ROWS_PER_STATEMENT_MAX: usize = 256;

/// One statement in several sizes, of 1, 2, 4 and so on up to [`ROWS_PER_STATEMENT_MAX`] rows, so that the number of prepared
/// statements is bounded.
///
/// If a statement has room for more rows than there are, the rest is not bound. `SQLite` reads unbound parameters as NULL, so
/// each statement must ignore rows whose key is NULL.
pub(super) struct ForRows {
    sizes: Vec<String>,
}

impl ForRows {
    /// `text` has `{rows}` at the place of the rows, each with `width` values, and no other parameters.
    pub(super) fn new(text: &str, width: usize) -> ForRows {
        let row = format!("({})", vec!["?"; width].join(", "));
        let sizes = (0..=ROWS_PER_STATEMENT_MAX.ilog2()).map(|size| vec![row.as_str(); 1 << size].join(", "));
        ForRows { sizes: sizes.map(|rows| text.replace("{rows}", &rows)).collect() }
    }

    /// The statement in all its sizes.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.sizes.iter().map(String::as_str)
    }

    /// Splits the rows into as few parts as possible, each with the smallest statement that has room for it.
    pub(super) fn parts<T>(&self, mut rows: Vec<T>) -> Vec<(&str, Vec<T>)> {
        let mut parts = Vec::with_capacity(rows.len().div_ceil(ROWS_PER_STATEMENT_MAX));
        while !rows.is_empty() {
            let rest = rows.split_off(rows.len().min(ROWS_PER_STATEMENT_MAX));
            let size = rows.len().next_power_of_two().ilog2() as usize;
            parts.push((self.sizes[size].as_str(), std::mem::replace(&mut rows, rest)));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_use_the_smallest_statement_that_fits() {
        let statement = ForRows::new("VALUES {rows}", 2);
        assert_eq!(statement.all().take(2).collect::<Vec<_>>(), ["VALUES (?, ?)", "VALUES (?, ?), (?, ?)"]);
        // The number of rows, and the size of the statement of each part.
        for (rows, room) in [
            (0, &[][..]),
            (1, &[1]),
            (2, &[2]),
            (3, &[4]),
            (64, &[64]),
            (65, &[128]),
            (256, &[256]),
            (257, &[256, 1]),
            (1_000, &[256, 256, 256, 256]),
        ] {
            let parts = statement.parts((0..rows).collect());
            let found: Vec<usize> = parts.iter().map(|(text, _)| text.matches('(').count()).collect();
            assert_eq!(found, room, "{rows}");
            let all: Vec<usize> = parts.into_iter().flat_map(|(_, rows)| rows).collect();
            assert!(all.into_iter().eq(0..rows), "{rows}");
        }
    }
}
