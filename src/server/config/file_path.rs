//! The path of an optional file.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

pub(super) const NONE: &str = "none";

/// The path of a file, or `none`, by which a flag can override a variable or the file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct FilePath(pub(super) Option<PathBuf>);

impl FromStr for FilePath {
    type Err = String;
    fn from_str(text: &str) -> Result<FilePath, String> {
        match text {
            NONE => Ok(FilePath(None)),
            "" => Err(format!("is neither `{NONE}` nor the path of a file")),
            path => Ok(FilePath(Some(PathBuf::from(path)))),
        }
    }
}

impl TryFrom<String> for FilePath {
    type Error = String;
    fn try_from(text: String) -> Result<FilePath, String> {
        text.parse()
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => to.write_str(NONE),
            Some(path) => path.display().fmt(to),
        }
    }
}
