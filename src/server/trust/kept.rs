//! Something that is made of files: made anew when they change, and kept while they are of no use.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::secret_file;
use crate::metrics::Credentials;

/// A problem that stays is told again after this.
const TELL_AGAIN: Duration = Duration::from_mins(1);
const BYTES_MAX: u64 = 4 << 20;

/// What each of the files holds.
type Texts = Vec<Vec<u8>>;

type Make<T> = Box<dyn Fn(&Texts) -> Result<T, Vec<String>> + Send>;

/// What is made of some files that belong together.
pub(super) struct Kept<T> {
    /// The setting and the path of each.
    files: Vec<(String, PathBuf)>,
    make: Make<T>,
    texts: Texts,
    pub(super) value: Arc<T>,
    told: Option<(Vec<String>, Instant)>,
}

impl<T> Kept<T> {
    pub(super) fn new(
        files: Vec<(String, PathBuf)>,
        make: impl Fn(&Texts) -> Result<T, Vec<String>> + Send + 'static,
    ) -> Result<Kept<T>, Vec<String>> {
        let texts = texts(&files)?;
        let value = Arc::new(make(&texts)?);
        Ok(Kept { files, make: Box::new(make), texts, value, told: None })
    }

    /// Whether there is another value now.
    pub(super) fn look(&mut self, seen: &Credentials) -> bool {
        let changed = self.read_again(seen);
        self.show(seen);
        changed
    }

    /// The settings of the files.
    pub(super) fn settings(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(setting, _)| setting.as_str())
    }

    /// Which files are of no use now.
    pub(super) fn show(&self, seen: &Credentials) {
        let problems = self.told.as_ref().map_or(&[][..], |(problems, _)| problems);
        for (setting, _) in &self.files {
            // Each problem begins with its setting.
            let its = |problem: &String| {
                problem.strip_prefix(setting.as_str()).is_some_and(|rest| rest.starts_with(':'))
            };
            seen.looked_at(setting, problems.iter().any(its));
        }
    }

    fn read_again(&mut self, seen: &Credentials) -> bool {
        match texts(&self.files) {
            Ok(texts) if texts == self.texts => {
                self.told = None;
                false
            }
            Ok(texts) => match (self.make)(&texts) {
                Ok(value) => {
                    let pairs = self.files.iter().zip(self.texts.iter().zip(&texts));
                    pairs
                        .filter(|(_, (old, new))| old != new)
                        .for_each(|((setting, _), _)| seen.put_in_force(setting));
                    (self.texts, self.value, self.told) = (texts, Arc::new(value), None);
                    let files: Vec<&str> = self.files.iter().map(|(setting, _)| setting.as_str()).collect();
                    tracing::info!(files = files.join(", "), "read again: in force from now on");
                    true
                }
                Err(problems) => self.tell(problems),
            },
            Err(problems) => self.tell(problems),
        }
    }

    fn tell(&mut self, problems: Vec<String>) -> bool {
        let now = Instant::now();
        let known = |(told, at): &(Vec<String>, Instant)| *told == problems && now - *at < TELL_AGAIN;
        if !self.told.as_ref().is_some_and(known) {
            for problem in &problems {
                tracing::error!(problem, "what was read before stays in force");
            }
            self.told = Some((problems, now));
        }
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
) -> Result<Kept<T>, Vec<String>> {
    let shown = path.display().to_string();
    Kept::new(vec![(setting.to_owned(), path.to_owned())], move |texts| {
        let text = texts.first().and_then(|text| std::str::from_utf8(text).ok());
        let text = text.ok_or_else(|| vec![format!("{setting}: {shown}: is not UTF-8")])?;
        let named = |problem| format!("{setting}: {shown}: {problem}");
        read(text).map_err(|problems| problems.into_iter().map(named).collect())
    })
}

/// What was read; the problems keep what is wrong.
pub(super) fn sound<T>(read: Option<Result<T, Vec<String>>>, problems: &mut Vec<String>) -> Option<T> {
    match read? {
        Ok(value) => Some(value),
        Err(wrong) => {
            problems.extend(wrong);
            None
        }
    }
}
