//! A JSON object without duplicate names. Of two members with the same name one parser uses the first and another the last: the
//! checked value could differ from the one that the issuer meant.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

pub(super) struct JsonObject(Map<String, Value>);

/// The name of a member with the wrong type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrongType(pub(super) &'static str);

impl JsonObject {
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The text of this member; `None` if the member is absent. `null` is an error.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<&str>, WrongType> {
        self.get(name).map(|value| value.as_str().ok_or(WrongType(name))).transpose()
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonObject, D::Error> {
        deserializer.deserialize_map(UniqueNames)
    }
}

struct UniqueNames;

impl<'de> Visitor<'de> for UniqueNames {
    type Value = JsonObject;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonObject, A::Error> {
        let mut fields = Map::new();
        while let Some((name, value)) = map.next_entry()? {
            if fields.insert(name, value).is_some() {
                return Err(A::Error::custom("a name is there twice"));
            }
        }
        Ok(JsonObject(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_names_are_refused() {
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
            assert_eq!(serde_json::from_str::<JsonObject>(text).is_ok(), good, "{text}");
        }
    }

    #[test]
    fn text_of_other_type_is_refused() {
        let fields: JsonObject = serde_json::from_str(r#"{"text":"a","number":1,"null":null}"#).unwrap();
        assert_eq!(fields.text("text"), Ok(Some("a")));
        assert_eq!(fields.text("none"), Ok(None));
        assert_eq!(fields.text("number"), Err(WrongType("number")));
        assert_eq!(fields.text("null"), Err(WrongType("null")));
    }
}
