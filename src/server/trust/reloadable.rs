//! A value that is built from files: rebuilt when they change, and kept while they are invalid.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::secret_file;
use crate::metrics::Credentials;

/// A persisting problem is logged again after this time.
const REPORT_AGAIN: Duration = Duration::from_mins(1);
const BYTES_MAX: u64 = 4 << 20;

/// The contents of the files.
type Texts = Vec<Vec<u8>>;

type Make<T> = Box<dyn Fn(&Texts) -> Result<T, Vec<String>> + Send>;

/// A value that is built from files that belong together.
pub(super) struct Reloadable<T> {
    /// The setting and the path of each.
    files: Vec<(String, PathBuf)>,
    make: Make<T>,
    texts: Texts,
    pub(super) value: Arc<T>,
    reported: Option<Reported>,
}

/// The problems of the files as they were found last, and when the log reported them.
struct Reported {
    problems: Vec<String>,
    at: Instant,
}

impl Reported {
    /// The record after these problems were found at `now`, and whether the log must report them.
    fn after(before: Option<Reported>, problems: Vec<String>, now: Instant) -> (Reported, bool) {
        match before {
            Some(known) if known.problems == problems && now - known.at < REPORT_AGAIN => (known, false),
            Some(_) | None => (Reported { problems, at: now }, true),
        }
    }
}

impl<T> Reloadable<T> {
    pub(super) fn new(
        files: Vec<(String, PathBuf)>,
        make: impl Fn(&Texts) -> Result<T, Vec<String>> + Send + 'static,
    ) -> Result<Reloadable<T>, Vec<String>> {
        let texts = texts(&files)?;
        let value = Arc::new(make(&texts)?);
        Ok(Reloadable { files, make: Box::new(make), texts, value, reported: None })
    }

    /// Reads the files again; returns whether the value changed.
    pub(super) fn reload(&mut self, seen: &Credentials) -> bool {
        let changed = self.try_reload(seen);
        self.show(seen);
        changed
    }

    /// The settings of the files.
    pub(super) fn settings(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(setting, _)| setting.as_str())
    }

    /// Reports to the metrics which files are invalid now.
    pub(super) fn show(&self, seen: &Credentials) {
        let problems = self.reported.as_ref().map_or(&[][..], |reported| &reported.problems);
        for (setting, _) in &self.files {
            // Each problem begins with its setting.
            let its = |problem: &String| {
                problem.strip_prefix(setting.as_str()).is_some_and(|rest| rest.starts_with(':'))
            };
            seen.looked_at(setting, problems.iter().any(its));
        }
    }

    fn try_reload(&mut self, seen: &Credentials) -> bool {
        match texts(&self.files) {
            Ok(texts) if texts == self.texts => {
                self.reported = None;
                false
            }
            Ok(texts) => match (self.make)(&texts) {
                Ok(value) => {
                    let pairs = self.files.iter().zip(self.texts.iter().zip(&texts));
                    pairs
                        .filter(|(_, (old, new))| old != new)
                        .for_each(|((setting, _), _)| seen.put_in_force(setting));
                    (self.texts, self.value, self.reported) = (texts, Arc::new(value), None);
                    let files: Vec<&str> = self.files.iter().map(|(setting, _)| setting.as_str()).collect();
                    tracing::info!(files = files.join(", "), "read again: in force from now on");
                    true
                }
                Err(problems) => self.report(problems),
            },
            Err(problems) => self.report(problems),
        }
    }

    fn report(&mut self, problems: Vec<String>) -> bool {
        let (reported, is_due) = Reported::after(self.reported.take(), problems, Instant::now());
        if is_due {
            for problem in &reported.problems {
                tracing::error!(problem, "what was read before stays in force");
            }
        }
        self.reported = Some(reported);
        false
    }
}

fn texts(files: &[(String, PathBuf)]) -> Result<Texts, Vec<String>> {
    let (mut texts, mut problems) = (Texts::new(), Vec::new());
    for (setting, path) in files {
        match secret_file::bytes(path, BYTES_MAX) {
            Ok(text) => texts.push(text),
            Err(error) => problems.push(format!("{setting}: {}: {error}", path.display())),
        }
    }
    if problems.is_empty() { Ok(texts) } else { Err(problems) }
}

/// Reads one file of TOML.
pub(super) fn toml_file<T: 'static>(
    setting: &'static str,
    path: &Path,
    read: fn(&str) -> Result<T, Vec<String>>,
) -> Result<Reloadable<T>, Vec<String>> {
    let shown = path.display().to_string();
    Reloadable::new(vec![(setting.to_owned(), path.to_owned())], move |texts| {
        let text = texts.first().and_then(|text| std::str::from_utf8(text).ok());
        let text = text.ok_or_else(|| vec![format!("{setting}: {shown}: is not UTF-8")])?;
        let named = |problem| format!("{setting}: {shown}: {problem}");
        read(text).map_err(|problems| problems.into_iter().map(named).collect())
    })
}

/// The value; errors are added to the problems.
pub(super) fn collect_problems<T>(
    read: Option<Result<T, Vec<String>>>,
    problems: &mut Vec<String>,
) -> Option<T> {
    match read? {
        Ok(value) => Some(value),
        Err(wrong) => {
            problems.extend(wrong);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_that_persists_is_reported_each_minute() {
        let (began, mut last) = (Instant::now(), None);
        for (second, problem, is_due) in [
            (0, "a", true),
            (1, "a", false),
            (59, "a", false),
            (60, "a", true),
            (119, "a", false),
            (120, "a", true),
            (121, "b", true),
            (122, "a", true),
        ] {
            let now = began + Duration::from_secs(second);
            let (reported, due) = Reported::after(last, vec![problem.to_owned()], now);
            assert_eq!(due, is_due, "second {second}");
            last = Some(reported);
        }
    }
}
