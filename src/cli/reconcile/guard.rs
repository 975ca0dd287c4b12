//! The rows of a guard table, in the form of `entries import`.

use std::io::Read;

use super::Rows;
use super::parts::{Next, Placed};
use crate::cli::import::{Defaults, Format, ImportRows, NextRow};
use crate::cli::problem::Problem;
use crate::proto::{EffectEvidence, ImportedEntry, ReconcileRow};

pub(super) fn rows(format: Format, input: Box<dyn Read + Send>, defaults: Defaults) -> Result<Rows, Problem> {
    let rows = ImportRows::new(format, input, defaults, 1)?;
    Ok(Box::new(rows.map(|next| match next {
        NextRow::Row(line, _, entry) => row(line, entry),
        NextRow::Bad(line, why) => Next::Bad(line, why),
        NextRow::Broken(why) => Next::Broken(why),
    })))
}

fn row(line: u64, entry: ImportedEntry) -> Next {
    let ImportedEntry { key, completed_at, result, fingerprint } = entry;
    if completed_at.is_none() {
        let why = "completed_at: is missing; key and instant identify the row";
        return Next::Bad(line, why.to_owned());
    }
    let evidence = EffectEvidence::Guard.into();
    Next::Row(Box::new(Placed {
        line,
        row: ReconcileRow { key, at: completed_at, evidence, result, fingerprint },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Torn;

    impl Read for Torn {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is torn"))
        }
    }

    #[test]
    fn input_that_cannot_be_read_ends_the_rows() {
        let rows = rows(Format::Jsonl, Box::new(Torn), Defaults::default()).map_err(|it| it.text);
        let found: Vec<Next> = rows.unwrap().collect();
        assert!(matches!(&found[..], [Next::Broken(why)] if why.contains("torn")), "{found:?}");
    }

    #[test]
    fn a_row_without_an_instant_is_bad() {
        let text = "consumer,source,id,completed_at\nc,s,1,1780000000\nc,s,2,\nc,,3,1780000000\n";
        let rows = rows(Format::Csv, Box::new(text.as_bytes()), Defaults::default()).map_err(|it| it.text);
        let found: Vec<Next> = rows.unwrap().collect();
        let [Next::Row(placed), Next::Bad(3, why), Next::Bad(4, lacks)] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((placed.line, placed.row.evidence()), (2, EffectEvidence::Guard));
        assert!(why.starts_with("completed_at: is missing"), "{why}");
        assert!(lacks.starts_with("source: is missing"), "{lacks}");
    }
}
