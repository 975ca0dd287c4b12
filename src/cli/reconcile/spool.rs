//! The rows of a spool: one JSON object a line, written before and after each effect. The format is described in
//! docs/away.md.

use std::collections::HashMap;
use std::io::{BufRead, Read as _};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::parts::{Next, Placed};
use crate::cli::text::clean;
use crate::proto::{EffectEvidence, EntryKey, ReconcileRow};

/// The version of the format.
const VERSION: u32 = 1;
/// The maximum number of bytes of a line: a key, a fingerprint and a result at the highest bounds of a server (1 MiB), and base64.
const LINE_BYTES_MAX: u64 = 2 << 20;
/// The maximum number of beginnings without an end at any line. No consumer has this number of effects under way together.
const OPEN_MAX: usize = 100_000;

/// What a line reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Event {
    /// The effect is about to happen.
    Begin,
    /// The effect has happened.
    End,
    /// The effect has not happened, for certain.
    None,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpoolLine {
    v: u32,
    event: Event,
    row: String,
    at: String,
    consumer: String,
    source: String,
    id: String,
    #[serde(default)]
    fingerprint_hex: String,
    #[serde(default)]
    result_base64: String,
}

/// The id of a row; and the consumer, source and id of its key.
type Begun = (String, [String; 3]);

/// The rows of a spool: those that have ended in the order of their ends, then those without an end in the order of their
/// beginnings.
pub(super) struct Spool<R> {
    input: R,
    line: u64,
    /// The beginnings that have no end yet, by the id of their row and their key: spools of two processes that were joined may have
    /// the same ids.
    open: HashMap<Begun, Placed>,
    /// Beginnings that were repeated before their end: each may have had an effect.
    repeated: Vec<Placed>,
    /// The beginnings that have no end at the end of the file, the last one first.
    unfinished: Option<Vec<Placed>>,
    broken: bool,
}

impl<R: BufRead> Spool<R> {
    pub(super) fn new(input: R) -> Spool<R> {
        Spool { input, line: 0, open: HashMap::new(), repeated: Vec::new(), unfinished: None, broken: false }
    }

    /// The next line; `None` at the end of the file.
    fn read(&mut self) -> Option<Result<SpoolLine, Next>> {
        loop {
            let mut text = Vec::new();
            let read = (&mut self.input).take(LINE_BYTES_MAX).read_until(b'\n', &mut text);
            self.line += 1;
            let line = self.line;
            match read {
                Ok(0) => return None,
                Ok(_) if text.len() as u64 >= LINE_BYTES_MAX => {
                    // A line of exactly this length was read with its end.
                    if !text.ends_with(b"\n")
                        && let Err(error) = skip_line(&mut self.input)
                    {
                        return Some(Err(Next::Broken(format!("line {line}: {error}"))));
                    }
                    return Some(Err(Next::Bad(line, format!("is longer than {LINE_BYTES_MAX} bytes"))));
                }
                Ok(_) => {}
                Err(error) => return Some(Err(Next::Broken(format!("line {line}: {error}")))),
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            return match serde_json::from_slice(&text) {
                Ok(SpoolLine { v, .. }) if v != VERSION => {
                    let why = format!(
                        "line {line}: has version {v} of the format, and this program reads {VERSION}"
                    );
                    Some(Err(Next::Broken(why)))
                }
                Ok(found) => Some(Ok(found)),
                // Nothing follows: the writer was killed within the line, before the effect or before its end was noted.
                Err(_) if !text.ends_with(b"\n") => Some(Err(Next::Torn(line))),
                Err(error) => Some(Err(Next::Bad(line, clean(&error.to_string())))),
            };
        }
    }

    /// Takes a line in; `None` if it makes no row yet.
    fn take(&mut self, found: SpoolLine) -> Result<Option<Placed>, Next> {
        let (line, event) = (self.line, found.event);
        let key = [&found.consumer, &found.source, &found.id].map(String::clone);
        let begun = (found.row.clone(), key);
        let placed = placed(line, found).map_err(|why| Next::Bad(line, why))?;
        if event == Event::Begin {
            if self.open.len() + self.repeated.len() >= OPEN_MAX {
                let why =
                    format!("line {line}: more than {OPEN_MAX} beginnings have no end; is this a spool?");
                return Err(Next::Broken(why));
            }
            self.repeated.extend(self.open.insert(begun, placed));
            return Ok(None);
        }
        let begun = self.open.remove(&begun);
        if event == Event::None {
            return Ok(None);
        }
        let mut ended = placed;
        if let Some(begun) = begun
            && ended.row.fingerprint.is_empty()
        {
            ended.row.fingerprint = begun.row.fingerprint;
        }
        Ok(Some(ended))
    }
}

impl<R: BufRead> Iterator for Spool<R> {
    type Item = Next;

    fn next(&mut self) -> Option<Next> {
        while self.unfinished.is_none() && !self.broken {
            let taken = match self.read() {
                Some(Ok(found)) => self.take(found),
                Some(Err(next)) => Err(next),
                None => {
                    let mut open = std::mem::take(&mut self.repeated);
                    open.extend(std::mem::take(&mut self.open).into_values());
                    open.sort_by_key(|placed| std::cmp::Reverse(placed.line));
                    self.unfinished = Some(open);
                    continue;
                }
            };
            match taken {
                Ok(Some(placed)) => return Some(Next::Row(Box::new(placed))),
                Ok(None) => {}
                Err(next) => {
                    self.broken = matches!(next, Next::Broken(_));
                    return Some(next);
                }
            }
        }
        self.unfinished.as_mut().and_then(Vec::pop).map(|placed| Next::Row(Box::new(placed)))
    }
}

/// Skips the rest of a line, in pieces of the reader's own size.
fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let piece = input.fill_buf()?;
        let end = piece.iter().position(|byte| *byte == b'\n');
        let (skipped, done) = (end.map_or(piece.len(), |end| end + 1), end.is_some() || piece.is_empty());
        input.consume(skipped);
        if done {
            return Ok(());
        }
    }
}

fn placed(line: u64, found: SpoolLine) -> Result<Placed, String> {
    let ended = found.event == Event::End;
    let at = found.at.parse().map_err(|_| {
        format!("at: {:?} is not an RFC 3339 time like 2026-03-01T12:00:00.000001Z", clean(&found.at))
    })?;
    if !ended && !found.result_base64.is_empty() {
        return Err("result_base64: belongs to an end only".to_owned());
    }
    let result =
        BASE64_STANDARD.decode(&found.result_base64).map_err(|error| format!("result_base64: {error}"))?;
    let fingerprint =
        hex::decode(&found.fingerprint_hex).map_err(|error| format!("fingerprint_hex: {error}"))?;
    let evidence = if ended { EffectEvidence::Spool } else { EffectEvidence::SpoolUnfinished };
    let key =
        EntryKey { consumer: found.consumer, source: found.source, id: found.id, ..EntryKey::default() };
    let row = ReconcileRow {
        key: Some(key),
        at: Some(at),
        evidence: evidence.into(),
        result: result.into(),
        fingerprint: fingerprint.into(),
    };
    Ok(Placed { line, row })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event: &str, row: &str, id: &str, more: &str) -> String {
        format!(
            "{{\"v\":1,\"event\":\"{event}\",\"row\":\"{row}\",\"at\":\"2026-05-28T20:00:00.000001Z\",\
             \"consumer\":\"c\",\"source\":\"s\",\"id\":\"{id}\"{more}}}\n"
        )
    }

    fn read(text: &str) -> (Vec<String>, Option<u64>) {
        let mut torn = None;
        let found = Spool::new(text.as_bytes())
            .filter_map(|next| match next {
                Next::Torn(line) => {
                    torn = Some(line);
                    None
                }
                Next::Row(placed) => {
                    let (word, row) = (placed.row.evidence(), &placed.row);
                    let word = word.as_str_name().trim_start_matches("EFFECT_EVIDENCE_").to_owned();
                    Some(format!("{} {word} {}", placed.line, row.key.as_ref().unwrap().id))
                }
                Next::Bad(line, why) => Some(format!("{line}! {why}")),
                Next::Broken(why) => Some(format!("!! {why}")),
            })
            .collect();
        (found, torn)
    }

    #[test]
    fn ends_come_first_and_beginnings_without_an_end_last() {
        let text = [
            line("begin", "a", "1", ""),
            line("begin", "b", "2", ""),
            "\n".to_owned(),
            line("end", "b", "2", ",\"result_base64\":\"aGk=\""),
            line("begin", "c", "3", ""),
            line("none", "c", "3", ""),
            line("begin", "d", "1", ""),
            // Its beginning is in another file.
            line("end", "e", "5", ""),
        ];
        let (found, torn) = read(&text.concat());
        assert_eq!(found, ["4 SPOOL 2", "8 SPOOL 5", "1 SPOOL_UNFINISHED 1", "7 SPOOL_UNFINISHED 1"]);
        assert_eq!(torn, None);
    }

    #[test]
    fn an_end_has_the_fingerprint_of_its_beginning() {
        let text = [line("begin", "a", "1", ",\"fingerprint_hex\":\"0aff\""), line("end", "a", "1", "")];
        let text = text.concat();
        let Some(Next::Row(placed)) = Spool::new(text.as_bytes()).next() else { panic!("no row") };
        assert_eq!(&placed.row.fingerprint[..], [0x0a, 0xff]);
        let nanos = placed.row.at.unwrap().nanos;
        assert_eq!(nanos, 1_000);
    }

    #[test]
    fn a_line_that_was_cut_off_ends_the_file_and_makes_no_row() {
        let cut = line("end", "a", "1", "");
        let (found, torn) = read(&(line("begin", "a", "1", "") + &cut[..cut.len() - 9]));
        assert_eq!((found, torn), (vec!["1 SPOOL_UNFINISHED 1".to_owned()], Some(2)));
        // A whole line needs no line break.
        let (found, torn) = read(cut.trim_end());
        assert_eq!((found, torn), (vec!["1 SPOOL 1".to_owned()], None));
        // Elsewhere it is a fault, and what has begun stays without an end.
        let (found, _) = read(&format!("{}{}\n", line("begin", "a", "1", ""), &cut[..20]));
        assert!(found[0].starts_with("2! ") && found[1] == "1 SPOOL_UNFINISHED 1", "{found:?}");
    }

    #[test]
    fn spool_repeated_row_ids_keep_every_beginning() {
        for (text, rows) in [
            ([line("begin", "a", "1", ""), line("end", "a", "2", "")], ["2 SPOOL 2", "1 SPOOL_UNFINISHED 1"]),
            (
                [line("begin", "a", "1", ""), line("begin", "a", "2", "")],
                ["1 SPOOL_UNFINISHED 1", "2 SPOOL_UNFINISHED 2"],
            ),
            (
                [line("begin", "a", "1", ""), line("begin", "a", "1", "")],
                ["1 SPOOL_UNFINISHED 1", "2 SPOOL_UNFINISHED 1"],
            ),
        ] {
            assert_eq!(read(&text.concat()).0, rows, "{text:?}");
        }
    }

    #[test]
    fn spool_long_line_is_reported_alone() {
        for bytes in [(2 << 20) - 1, 2 << 20, 3 << 20] {
            let long = "x".repeat(bytes);
            let text = format!("{}{long}\n{}", line("begin", "a", "1", ""), line("end", "b", "2", ""));
            let (found, torn) = read(&text);
            assert!(found[0].starts_with("2! is longer than"), "{bytes}: {found:?}");
            assert_eq!(
                (&found[1..], torn),
                (&["3 SPOOL 2".to_owned(), "1 SPOOL_UNFINISHED 1".to_owned()][..], None),
                "{bytes}"
            );
        }
    }

    #[test]
    fn bad_lines_name_their_fault() {
        for (text, says) in [
            (line("begin", "a", "1", ",\"result_base64\":\"aGk=\""), "1! result_base64: belongs to an end"),
            (line("end", "a", "1", ",\"result_base64\":\"!\""), "1! result_base64: "),
            (line("end", "a", "1", ",\"fingerprint_hex\":\"0\""), "1! fingerprint_hex: "),
            (line("end", "a", "1", "").replace("2026-05-28T", "May "), "1! at: "),
            (line("end", "a", "1", ",\"colour\":1"), "1! unknown field `colour`"),
            (
                line("end", "a", "1", "").replace("\"v\":1", "\"v\":2"),
                "!! line 1: has version 2 of the format",
            ),
            ("x".repeat(3 << 20) + "\n", "1! is longer than"),
        ] {
            let (found, _) = read(&text);
            assert!(found[0].starts_with(says), "{found:?} must say {says}");
        }
    }

    #[test]
    fn beginnings_without_an_end_are_bounded() {
        let open = (0..=OPEN_MAX).map(|row| line("begin", &row.to_string(), "1", "")).collect::<String>();
        let (found, _) = read(&open);
        let says = "!! line 100001: more than 100000 beginnings have no end; is this a spool?";
        assert_eq!(found, [says]);
    }

    #[test]
    fn long_line_is_skipped_in_pieces() {
        let mut input = std::io::BufReader::with_capacity(4, &b"a long line\nnext"[..]);
        skip_line(&mut input).unwrap();
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut input, &mut rest).unwrap();
        assert_eq!(rest, "next");
        skip_line(&mut input).unwrap();
    }
}
