//! A value as it was given, valid or not.

use std::convert::Infallible;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

/// A value of a flag or of the environment. An invalid one is kept, so that it is reported together with all other problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given<T> {
    /// The parsed value.
    Value(T),
    /// The text that cannot be parsed.
    Unreadable(String),
}

impl<T: FromStr> FromStr for Given<T> {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Given<T>, Infallible> {
        Ok(text.parse().map_or_else(|_| Given::Unreadable(text.to_owned()), Given::Value))
    }
}

/// In a file, an invalid value is an error, which the reader of the file reports with its line.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Given<T>, D::Error> {
        T::deserialize(from).map(Given::Value)
    }
}
