//! The rows of a file, one after the other, each with its line.

use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use prost::Message as _;

use super::chunk;
use super::row::{COLUMNS, Defaults, Row};
use super::row_limit::{ROW_BYTES_MAX, RowLimit, Share};
use crate::cli::problem::Problem;
use crate::cli::text::{clean, counted};
use crate::proto::ImportedEntry;

/// The form of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Format {
    /// Comma-separated values, with a line of names first
    Csv,
    /// One JSON object a line
    Jsonl,
}

impl Format {
    /// The form that is named, else the one of the file's extension.
    pub(in crate::cli) fn of(named: Option<Format>, file: &str) -> Result<Format, Problem> {
        let extension = file.rsplit_once('.').map(|(_, extension)| extension.to_lowercase());
        match (named, extension.as_deref()) {
            (Some(format), _) => Ok(format),
            (None, Some("csv")) => Ok(Format::Csv),
            (None, Some("jsonl" | "ndjson")) => Ok(Format::Jsonl),
            (None, _) => Err(Problem::usage(
                "--format: name csv or jsonl; the file's name does not end with .csv, .jsonl or .ndjson",
            )),
        }
    }
}

/// The next item of the file.
pub(in crate::cli) enum Next {
    /// An entry, its line, and the number of bytes of the file that were read with it.
    Row(u64, u64, ImportedEntry),
    /// A line that is not a valid row.
    Bad(u64, String),
    /// The rest of the file cannot be read.
    Broken(String),
}

enum Input {
    Csv(Box<csv::Reader<RowLimit>>, Vec<String>, Share),
    Jsonl(BufReader<RowLimit>, Share),
}

/// The rows; it ends after a broken one.
pub(in crate::cli) struct Rows {
    input: Input,
    defaults: Defaults,
    from_line: u64,
    line: u64,
    position: u64,
    spanning: Arc<AtomicU64>,
    ended: bool,
}

impl Rows {
    pub(in crate::cli) fn new(
        format: Format,
        input: Box<dyn std::io::Read + Send>,
        defaults: Defaults,
        from_line: u64,
    ) -> Result<Rows, Problem> {
        let (limited, share) = RowLimit::new(input);
        let input = match format {
            Format::Jsonl => Input::Jsonl(BufReader::new(limited), share),
            Format::Csv => {
                let mut reader = csv::ReaderBuilder::new().from_reader(limited);
                let header = reader.headers();
                let header = header.map_err(|error| Problem::failed(format!("line 1: {error}")))?.clone();
                if let Some(line) = share.open_quote() {
                    return Err(Problem::failed(open_quote(line)));
                }
                // A byte order mark is not part of a name.
                let names: Vec<String> =
                    header.iter().map(|name| name.trim_start_matches('\u{feff}').trim().to_owned()).collect();
                check(&names).map_err(Problem::failed)?;
                complete(&names, &defaults)?;
                Input::Csv(Box::new(reader), names, share)
            }
        };
        Ok(Rows { input, defaults, from_line, line: 0, position: 0, spanning: Arc::default(), ended: false })
    }

    /// The number of rows so far that had a field with a line break.
    pub(super) fn spanning(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.spanning)
    }

    /// The next row as it was read; `None` at the end.
    fn read(&mut self) -> Option<Result<Row, Next>> {
        match &mut self.input {
            Input::Csv(reader, names, share) => {
                share.renew();
                let mut record = csv::StringRecord::new();
                let read = reader.read_record(&mut record);
                // The row is invalid whatever it seems to contain: the following rows are in it.
                if let Some(line) = share.open_quote() {
                    return Some(Err(Next::Broken(open_quote(line))));
                }
                match read {
                    Ok(false) => None,
                    Ok(true) => {
                        self.line = record.position().map_or(self.line, csv::Position::line);
                        self.position = reader.position().byte();
                        if self.line >= self.from_line
                            && record.iter().any(|field| field.contains(['\n', '\r']))
                        {
                            self.spanning.fetch_add(1, Ordering::Relaxed);
                        }
                        let mut row = Row::default();
                        names.iter().zip(&record).for_each(|(name, value)| row.set(name, value));
                        Some(Ok(row))
                    }
                    Err(error) => {
                        let line = error.position().map_or(self.line, csv::Position::line);
                        let why = clean(&error.to_string());
                        self.line = line;
                        Some(Err(if error.is_io_error() {
                            Next::Broken(format!("after line {line}: {why}"))
                        } else {
                            Next::Bad(line, why)
                        }))
                    }
                }
            }
            Input::Jsonl(reader, share) => loop {
                share.renew();
                let mut text = Vec::new();
                let read = reader.take(ROW_BYTES_MAX).read_until(b'\n', &mut text);
                self.line += 1;
                let line = self.line;
                match read {
                    Ok(0) => return None,
                    Ok(read) => self.position += u64::try_from(read).unwrap_or(0),
                    Err(error) => return Some(Err(Next::Broken(format!("line {line}: {error}")))),
                }
                if text.len() as u64 >= ROW_BYTES_MAX {
                    let why = format!("line {line}: is longer than {ROW_BYTES_MAX} bytes");
                    return Some(Err(Next::Broken(why)));
                }
                let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
                if text.trim_ascii().is_empty() {
                    continue;
                }
                let row = serde_json::from_slice(text);
                return Some(row.map_err(|error| Next::Bad(line, clean(&error.to_string()))));
            },
        }
    }
}

impl Rows {
    /// The fault that the line to start from is beyond the end. The line after the last one is valid: the
    /// whole file was read.
    fn beyond(&self) -> Option<Next> {
        let (Input::Csv(_, _, share) | Input::Jsonl(_, share)) = &self.input;
        let lines = share.lines();
        (self.from_line > lines.saturating_add(1)).then(|| {
            Next::Broken(format!(
                "--from-line {} is beyond the end: the file has {}",
                self.from_line,
                counted(lines, "line", "lines")
            ))
        })
    }
}

impl Iterator for Rows {
    type Item = Next;

    fn next(&mut self) -> Option<Next> {
        while !self.ended {
            let next = match self.read() {
                None => {
                    self.ended = true;
                    return self.beyond();
                }
                Some(Ok(row)) if self.line >= self.from_line => match row.entry(&self.defaults) {
                    Ok(entry) if entry.encoded_len() > chunk::BYTES_MAX => {
                        let why = format!("the row is larger than {} bytes", chunk::BYTES_MAX);
                        Next::Bad(self.line, why)
                    }
                    Ok(entry) => Next::Row(self.line, self.position, entry),
                    Err(why) => Next::Bad(self.line, why),
                },
                Some(Err(broken @ Next::Broken(_))) => {
                    self.ended = true;
                    broken
                }
                Some(Err(next)) if self.line >= self.from_line => next,
                // Before the line to start from.
                Some(_) => continue,
            };
            return Some(next);
        }
        None
    }
}

fn open_quote(line: u64) -> String {
    format!(
        "line {line}: a quotation mark opens in the record that begins here and is never closed; nothing of it \
         was taken"
    )
}

/// Checks that a flag names what no column names.
fn complete(names: &[String], defaults: &Defaults) -> Result<(), Problem> {
    for (column, default) in [("consumer", &defaults.consumer), ("source", &defaults.source)] {
        if default.is_empty() && !names.iter().any(|name| name == column) {
            return Err(Problem::usage(format!("--{column}: name it; the file has no column {column}")));
        }
    }
    Ok(())
}

fn check(names: &[String]) -> Result<(), String> {
    let known = COLUMNS.join(", ");
    for (at, name) in names.iter().enumerate() {
        if !COLUMNS.contains(&name.as_str()) {
            return Err(format!("line 1: {:?} is not a column; there are {known}", clean(name)));
        }
        if names.iter().take(at).any(|other| other == name) {
            return Err(format!("line 1: the column {name} is there twice"));
        }
    }
    if names.iter().any(|name| name == "id") {
        Ok(())
    } else {
        Err(format!("line 1: the column id is missing; there are {known}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: Format, text: &str, from_line: u64) -> Vec<String> {
        let defaults = Defaults { consumer: "c".into(), source: "s".into() };
        let input = Box::new(std::io::Cursor::new(text.to_owned().into_bytes()));
        let rows = match Rows::new(format, input, defaults, from_line) {
            Ok(rows) => rows,
            Err(error) => return vec![error.text],
        };
        rows.map(|next| match next {
            Next::Row(line, _, entry) => format!("{line} {}", entry.key.unwrap().id),
            Next::Bad(line, why) => format!("{line}! {why}"),
            Next::Broken(why) => format!("!! {why}"),
        })
        .collect()
    }

    #[test]
    fn csv_rows_have_lines() {
        let text = "\u{feff}id,completed_at\n1,\n\"2\n2\",\n3,soon\n4\n5,1780000000\n";
        let found = read(Format::Csv, text, 1);
        assert_eq!(found[0], "2 1");
        assert!(found[1].starts_with("3! id: ") && found[1].contains("quotation mark"), "{found:?}");
        assert!(found[2].starts_with("5! completed_at"), "{found:?}");
        assert!(found[3].starts_with("6! "), "{found:?}");
        assert_eq!(found[4], "7 5");
        assert_eq!(read(Format::Csv, text, 7), ["7 5"]);
    }

    #[test]
    fn unclosed_quote_is_an_error() {
        for rows in ["\"2,\n3,\n4,\n", "2,\"\n3,\n4,\n", "\"2\n3\n", "\"2"] {
            let found = read(Format::Csv, &format!("id,result\n1,\n{rows}"), 1);
            assert_eq!(found[0], "2 1");
            assert_eq!(found.len(), 2, "{found:?}");
            assert!(found[1].starts_with("!! line 3: a quotation mark opens"), "{found:?}");
        }
        assert!(read(Format::Csv, "\"id\n1\n", 1)[0].starts_with("line 1: a quotation mark"));
        assert_eq!(read(Format::Csv, "id,result\n1,\"a\nb\"\n2,\"c\"", 1), ["2 1", "4 2"]);
    }

    #[test]
    fn start_line_beyond_the_end_is_an_error() {
        assert_eq!(read(Format::Csv, "id\n1\n2\n", 3), ["3 2"]);
        assert!(read(Format::Csv, "id\n1\n2\n", 4).is_empty(), "all was read");
        for (format, text) in [(Format::Csv, "id\n1\n2\n"), (Format::Jsonl, "{}\n{}\n{}")] {
            let found = read(format, text, 5);
            assert_eq!(found, ["!! --from-line 5 is beyond the end: the file has 3 lines"]);
        }
    }

    #[test]
    fn missing_column_without_a_flag_is_refused() {
        let rows = |text: &'static str| {
            Rows::new(Format::Csv, Box::new(std::io::Cursor::new(text)), Defaults::default(), 1).err()
        };
        assert!(rows("id,source\n").unwrap().text.starts_with("--consumer: "));
        assert!(rows("id,consumer\n").unwrap().text.starts_with("--source: "));
        assert!(rows("id,source,consumer\n").is_none());
    }

    #[test]
    fn wrong_header_is_refused() {
        assert!(read(Format::Csv, "id,colour\n", 1)[0].contains("\"colour\" is not a column"));
        assert!(read(Format::Csv, "id,id\n", 1)[0].contains("twice"));
        assert!(read(Format::Csv, "source\n", 1)[0].contains("id is missing"));
    }

    #[test]
    fn json_rows_have_lines() {
        let found =
            read(Format::Jsonl, "{\"id\": \"1\"}\n\n{\"id\": 2}\n{\"ID\": \"3\"}\n{\"id\": \"4\"}", 1);
        assert_eq!(found[0], "1 1");
        assert!(found[1].starts_with("3! ") && found[2].starts_with("4! unknown field `ID`"), "{found:?}");
        assert_eq!(found[3], "5 4");
    }

    #[test]
    fn endless_row_is_bounded() {
        let long = "x".repeat(9 << 20);
        let found = read(Format::Csv, &format!("id\n1\n\"{long}"), 1);
        assert_eq!(found[0], "2 1");
        assert!(found[1].contains("quotation mark"), "{found:?}");
        let found = read(Format::Jsonl, &format!("{{\"id\": \"1\"}}\n{long}"), 1);
        assert_eq!((found[0].as_str(), found.len()), ("1 1", 2));
        assert!(found[1].starts_with("!! line 2"), "{found:?}");
    }

    #[test]
    fn form_follows_the_flag_then_the_extension() {
        for (named, file, expected) in [
            (None, "rows.csv", Some(Format::Csv)),
            (None, "rows.JSONL", Some(Format::Jsonl)),
            (None, "rows.ndjson", Some(Format::Jsonl)),
            (Some(Format::Jsonl), "rows.csv", Some(Format::Jsonl)),
            (None, "rows.json", None),
            (None, "-", None),
        ] {
            assert_eq!(Format::of(named, file).ok(), expected, "{named:?} {file}");
        }
    }

    #[test]
    fn row_that_fits_into_no_request_is_bad_alone() {
        let row = |id: u8, bytes| format!("{{\"id\": \"{id}\", \"result\": \"{}\"}}\n", "x".repeat(bytes));
        let text = [row(1, chunk::BYTES_MAX), row(2, chunk::BYTES_MAX - 100), row(3, 1)].concat();
        let found = read(Format::Jsonl, &text, 1);
        assert_eq!(found, ["1! the row is larger than 1000000 bytes", "2 2", "3 3"]);
    }
}
