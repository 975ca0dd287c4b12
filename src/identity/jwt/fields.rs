//! A JSON object, each name of which is there once. With two of a name one reader takes the first and another the last:
//! what has been looked at would not be what was signed for.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

pub(super) struct Fields(Map<String, Value>);

/// The name of a field that is not of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrongType(pub(super) &'static str);

impl Fields {
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The text of this name, if the name is there: `null` is no text.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<&str>, WrongType> {
        self.get(name).map(|value| value.as_str().ok_or(WrongType(name))).transpose()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_map(OnceEach)
    }
}

struct OnceEach;

impl<'de> Visitor<'de> for OnceEach {
    type Value = Fields;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Map::new();
        while let Some((name, value)) = map.next_entry()? {
            if fields.insert(name, value).is_some() {
                return Err(A::Error::custom("a name is there twice"));
            }
        }
        Ok(Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_there_once() {
        for (text, good) in [
            ("{}", true),
            (r#"{"a":1,"A":1,"b":{"c":1}}"#, true),
            (r#"{"a":1,"b":2,"a":1}"#, false),
            (r#"{"a":1,"\u0061":1}"#, false),
            (r#"{"a":1} {}"#, false),
            (r#"{"a":1}x"#, false),
            (r#"{"a":1,}"#, false),
            ("[]", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(serde_json::from_str::<Fields>(text).is_ok(), good, "{text}");
        }
    }

    #[test]
    fn texts_are_texts() {
        let fields: Fields = serde_json::from_str(r#"{"text":"a","number":1,"null":null}"#).unwrap();
        assert_eq!(fields.text("text"), Ok(Some("a")));
        assert_eq!(fields.text("none"), Ok(None));
        assert_eq!(fields.text("number"), Err(WrongType("number")));
        assert_eq!(fields.text("null"), Err(WrongType("null")));
    }
}
