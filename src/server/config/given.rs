//! A value as it was given, readable or not.

use std::convert::Infallible;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

/// A value of a flag or of the environment. One that cannot be read is kept, to be reported together with all
/// else that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given<T> {
    /// What was read.
    Value(T),
    /// The text that cannot be read.
    Unreadable(String),
}

impl<T: FromStr> FromStr for Given<T> {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Given<T>, Infallible> {
        Ok(text.parse().map_or_else(|_| Given::Unreadable(text.to_owned()), Given::Value))
    }
}

/// In a file, what cannot be read is reported with its line, by who reads the file.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Given<T>, D::Error> {
        T::deserialize(from).map(Given::Value)
    }
}
