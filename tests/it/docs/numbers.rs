//! Each quantity of `docs/` and of README.md, a number with a unit, has a row of `numbers.tsv`: the page, the text in which
//! it stands, with the quantity in braces, and the source of its number. The number of a time, a size or a part may be a word:
//! `ten seconds`, `five eighths`. A row holds for one place of its page: a row that no place needs is refused, and so is one
//! that covers two, since equal quantities may have different sources. The sources:
//!
//! - `src/FILE.rs EXPRESSION`: constants of the file, and numbers: `CALL_BYTES + HEADER_BYTES_MAX`
//! - `FILE "TEXT"`: a text of a file, in which the number is; not of a comment, which nothing keeps equal to its code
//! - `setting NAME default|min|max`, `policy FIELD default|min|max`: a cell of a printed table of docs/configuration.md
//! - `suite NAME small|large`: the size of a suite of tests/lib/suites.sh
//! - `measured COMMAND`: printed by a command of this repository, or by a suite of `tests/it`
//! - `theirs WHOSE`: a fact of another product; `example`: a number that the page chooses
//!
//! Not judged here are tables that are printed from the program, blocks of code, and the figures that
//! `pages::the_figures_were_measured` compares with the large runs.

mod quantities;
mod sources;

use std::collections::BTreeMap;

use quantities::{Quantity, prose, quantities};
use sources::fits;

use super::pages::PAGES_WITH_FIGURES;
use super::{files, read};

/// The number of quantities that the pages have at least: fewer are found only by a finder that is broken.
const QUANTITIES_MIN: usize = 420;

/// The pages by their paths.
fn pages() -> BTreeMap<String, String> {
    let pages = files(&["docs"]).into_iter().map(|(path, text)| (path.to_string_lossy().into_owned(), text));
    let mut pages: BTreeMap<String, String> = pages.filter(|(path, _)| path.ends_with(".md")).collect();
    pages.insert("README.md".to_owned(), read("README.md"));
    for (path, text) in &mut pages {
        *text = prose(text, PAGES_WITH_FIGURES.contains(&path.as_str()));
    }
    pages
}

/// A row of the table, without its page.
struct Row<'t> {
    before: &'t str,
    quantity: &'t str,
    after: &'t str,
    source: &'t str,
}

impl Row<'_> {
    /// Whether the quantity of a text is that of the row.
    fn is_of(&self, text: &str, quantity: &Quantity) -> bool {
        text[quantity.at..quantity.end] == *self.quantity
            && text[..quantity.at].ends_with(self.before)
            && text[quantity.end..].starts_with(self.after)
    }
}

/// The rows by page; what is wrong with the form of the others.
fn rows(table: &str) -> (BTreeMap<&str, Vec<Row<'_>>>, Vec<String>) {
    let (mut rows, mut wrong) = (BTreeMap::<_, Vec<_>>::new(), Vec::new());
    for line in table.lines() {
        let row = || {
            let (page, rest) = line.split_once('\t')?;
            let (place, source) = rest.split_once('\t')?;
            let (before, rest) = place.split_once('{')?;
            let (quantity, after) = rest.split_once('}')?;
            Some((page, Row { before, quantity, after, source }))
        };
        match row() {
            Some((page, row)) => rows.entry(page).or_default().push(row),
            None => wrong.push(format!("must be `PAGE<tab>TEXT {{QUANTITY}} TEXT<tab>SOURCE`: {line}")),
        }
    }
    (rows, wrong)
}

/// The faults of the quantities of a page and of its rows.
fn faults(page: &str, text: &str, rows: &[Row<'_>]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut places = vec![0; rows.len()];
    for quantity in quantities(text) {
        let (before, after) = (&text[..quantity.at], &text[quantity.end..]);
        let before: String = before.chars().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect();
        let after: String = after.chars().take(30).collect();
        let place = format!("{page}\t{before}{{{}}}{after}", &text[quantity.at..quantity.end]);
        let found: Vec<usize> = (0..rows.len()).filter(|row| rows[*row].is_of(text, &quantity)).collect();
        found.iter().for_each(|row| places[*row] += 1);
        match found[..] {
            [row] => {
                if let Err(problem) = fits(&quantity, rows[row].source) {
                    wrong.push(format!("{place}\t{}: {problem}", rows[row].source));
                }
            }
            _ => wrong.push(format!("{place}\thas {} rows, must have one", found.len())),
        }
    }
    for (row, places) in rows.iter().zip(places).filter(|(_, places)| *places != 1) {
        let (before, quantity, after) = (row.before, row.quantity, row.after);
        let problem = match places {
            0 => "is not on the page: take the row out".to_owned(),
            _ => format!("covers {places} places: write a row for each, with more of its text"),
        };
        wrong.push(format!("{page}\t{before}{{{quantity}}}{after}\t{problem}"));
    }
    wrong
}

#[test]
fn every_quantity_has_a_source() {
    let (rows, mut wrong) = rows(include_str!("numbers.tsv"));
    let pages = pages();
    let number: usize = pages.values().map(|text| quantities(text).len()).sum();
    assert!(number >= QUANTITIES_MIN, "the pages have {number} quantities");
    for (page, text) in &pages {
        wrong.extend(faults(page, text, rows.get(page.as_str()).map_or(&[], Vec::as_slice)));
    }
    wrong.extend(
        rows.keys().filter(|page| !pages.contains_key(**page)).map(|page| format!("{page} is not a page")),
    );
    assert!(wrong.is_empty(), "tests/it/docs/numbers.tsv:\n{}", wrong.join("\n"));
}

#[test]
fn a_quantity_without_its_source_is_noticed() {
    let text = "waits 30 s, then `10s`, then 30 s again; 2 KiB of 5 % of 4 calls";
    let all = [
        "waits {30 s}\tpolicy lease default",
        "then {30 s}\tpolicy lease default",
        "{10s}\tsetting stall_max default",
        "{2 KiB}\texample",
        "{5 %}\ttheirs X",
    ];
    let complete = |last: &str| all.map(|row| format!("p\t{row}\n")).concat() + "p\t" + last;
    for (last, expected) in [
        ("of {4 calls}\tmeasured docs::numbers", None),
        ("{4 calls}\tmeasured docs::no_such_suite", Some("is not a source")),
        ("{4 calls}\tmeasured tests/prove no-such-suite", Some("is not a source")),
        ("{4 calls}\ttheirs", Some("is not a source")),
        ("{4 calls}\tsetting sessions default", Some("is 3")),
        ("{4 calls}\tsetting sessions max", Some("is 32")),
        ("{4 calls}\tsetting session default", Some("is not in the table")),
        ("{4 calls}\tpolicy lease default", Some("is 30s")),
        ("{4 calls}\tsuite pause small", Some("is 5")),
        ("{4 calls}\tsrc/no/such.rs X", Some("is not a source")),
        ("{4 calls}\ttests/it/docs/numbers.rs \"of 4 calls of 5\"", None),
        ("{4 calls}\ttests/it/docs/numbers/sources.rs \"of 4 calls\"", Some("nowhere")),
        ("{4 calls}\ttests/it/docs/numbers/sources.rs \"at 4 calls a poll\"", Some("only in comments")),
        ("{4 calls}\ttests/it/docs/numbers.rs \"of {3 calls}\"", Some("has [3.0]")),
        ("{3 calls}\texample", Some("is not on the page")),
        ("{30 s}\tpolicy lease default", Some("covers 2 places")),
        ("of {4 calls}\texample\np\t{4 calls}\texample", Some("has 2 rows")),
    ] {
        let table = complete(last);
        let (rows, malformed) = rows(&table);
        assert!(malformed.is_empty(), "{malformed:?}");
        let wrong = faults("p", text, &rows["p"]).join("\n");
        assert_eq!(wrong.is_empty(), expected.is_none(), "{last}: {wrong}");
        assert!(wrong.contains(expected.unwrap_or_default()), "{last}: {wrong}");
    }
}
