//! Parses the contexts file strictly: an unknown field is refused, and each fault has its line and its field.

use toml::de::{DeTable, DeValue};

use super::fields::{Context, Contexts, Field, name};
use crate::common::duration_arg::DurationArg;

/// A fault in a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) line: usize,
    pub(super) text: String,
}

/// Reads a file's text.
pub(super) fn parse(text: &str) -> Result<Contexts, Vec<Fault>> {
    let (root, errors) = DeTable::parse_recoverable(text);
    let mut reading = Reading { text, faults: Vec::new() };
    for error in &errors {
        reading.fault(error.span().map_or(0, |span| span.start), error.message().to_owned());
    }
    // A text that cannot be parsed has no values to trust.
    if !reading.faults.is_empty() {
        return Err(reading.faults);
    }
    let mut contexts = Contexts::default();
    for (key, value) in root.get_ref() {
        let (word, at) = (key.get_ref().as_ref(), key.span().start);
        match (word, value.get_ref()) {
            ("current", DeValue::String(current)) => match name(current) {
                Ok(current) => contexts.current = Some(current),
                Err(why) => reading.fault(at, format!("current: {why}")),
            },
            ("current", _) => reading.fault(at, "current: must be a name, like \"prod\"".to_owned()),
            ("contexts", DeValue::Table(table)) => reading.contexts(table, &mut contexts),
            ("contexts", _) => {
                reading.fault(at, "contexts: must be sections like [contexts.prod]".to_owned());
            }
            (word, _) => reading.fault(at, format!("{word:?}: unknown; there are current and contexts")),
        }
    }
    // A table is read in the order of its keys' names.
    reading.faults.sort_by_key(|fault| fault.line);
    if reading.faults.is_empty() { Ok(contexts) } else { Err(reading.faults) }
}

/// The number of the line with this byte.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

struct Reading<'t> {
    text: &'t str,
    faults: Vec<Fault>,
}

impl Reading<'_> {
    fn fault(&mut self, at: usize, text: String) {
        self.faults.push(Fault { line: line(self.text, at), text });
    }

    fn contexts(&mut self, table: &DeTable<'_>, contexts: &mut Contexts) {
        for (key, value) in table {
            let (word, at) = (key.get_ref().as_ref(), key.span().start);
            match (name(word), value.get_ref()) {
                (Err(why), _) => self.fault(at, format!("contexts.{word:?}: {why}")),
                (Ok(name), DeValue::Table(fields)) => {
                    let context = self.context(&name, at, fields);
                    contexts.named.insert(name, context);
                }
                (Ok(name), _) => {
                    self.fault(at, format!("contexts.{name}: must be a section [contexts.{name}]"));
                }
            }
        }
    }

    fn context(&mut self, name: &str, begins: usize, fields: &DeTable<'_>) -> Context {
        let mut context = Context::default();
        for (key, value) in fields {
            let (word, at) = (key.get_ref().as_ref(), key.span().start);
            match read(word, value.get_ref()) {
                Ok((field, value)) => drop(context.0.insert(field, value)),
                Err(why) => {
                    let word = if bare(word) { word.to_owned() } else { format!("{word:?}") };
                    self.fault(at, format!("contexts.{name}.{word}: {why}"));
                }
            }
        }
        // No missing field is reported for a context that could not be read.
        if !fields.keys().any(|key| key.get_ref() == Field::Endpoint.word()) {
            self.fault(begins, format!("contexts.{name}: endpoint is missing"));
        }
        for (one, other) in [(Field::TlsCert, Field::TlsKey), (Field::TlsKey, Field::TlsCert)] {
            if context.get(one).is_some() && !fields.keys().any(|key| key.get_ref() == other.word()) {
                let text = format!("contexts.{name}.{}: is of no use without {}", one.word(), other.word());
                self.fault(begins, text);
            }
        }
        context
    }
}

/// Whether TOML accepts a key without quotation marks.
fn bare(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn read(word: &str, value: &DeValue<'_>) -> Result<(Field, String), String> {
    if word == "token" {
        return Err(
            "a token never stands here: write it to a separate file, and name that file with token_file"
                .to_owned(),
        );
    }
    let Some(field) = Field::of(word) else {
        let words = Field::ALL.map(Field::word);
        return Err(format!("unknown; there are {}", words.join(", ")));
    };
    match value {
        DeValue::Boolean(value) if field.is_bool() => Ok((field, value.to_string())),
        _ if field.is_bool() => Err("must be true or false".to_owned()),
        DeValue::String(text) => checked(field, text).map(|()| (field, text.clone().into_owned())),
        DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => Err("must be a text in quotation marks".to_owned()),
    }
}

///
/// # Errors
/// The text is not a valid server, file or duration.
pub(super) fn checked(field: Field, text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("is empty".to_owned());
    }
    match field {
        // It would be a secret in this file.
        Field::Endpoint if text.contains('@') => Err("must not hold a user or a password".to_owned()),
        Field::Timeout => text.parse::<DurationArg>().map(drop),
        Field::Endpoint
        | Field::TlsCa
        | Field::TlsCert
        | Field::TlsKey
        | Field::TlsDomain
        | Field::TokenFile
        | Field::PlaintextToken => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_file_is_parsed() {
        let text = "current = \"staging\"\n[contexts.prod]\nendpoint = \"https://a:1\"\ntls_ca = \"ca.pem\"\n\
                    tls_cert = \"c\"\ntls_key = \"k\"\ntls_domain = \"d\"\ntoken_file = \"t\"\ntimeout = \"10s\"\n\
                    plaintext_token = true\n[contexts.\"a.b\"]\nendpoint = \"b:1\"\n";
        let read = parse(text).unwrap();
        assert_eq!(read.current.as_deref(), Some("staging"));
        assert_eq!(read.named.keys().collect::<Vec<_>>(), ["a.b", "prod"]);
        assert!(Field::ALL.iter().all(|field| read.named["prod"].get(*field).is_some()), "{read:?}");
        assert_eq!(read.named["prod"].get(Field::PlaintextToken), Some("true"));
        assert_eq!(parse("").unwrap(), Contexts::default());
    }

    #[test]
    fn parse_faults_have_line_and_field() {
        let with = |line: &str| format!("[contexts.prod]\nendpoint = \"a:1\"\n{line}\n");
        let faults = [
            ("current = 1".to_owned(), 1, "current: must be a name"),
            ("current = \"a b\"".into(), 1, "current: a context's name has 1 to 64"),
            ("\ncontexts = 1".into(), 2, "contexts: must be sections"),
            ("\n\ncurent = \"a\"".into(), 3, "\"curent\": unknown; there are current and contexts"),
            ("[contexts]\nprod = \"a:1\"".into(), 2, "contexts.prod: must be a section"),
            ("[contexts.\"a b\"]".into(), 1, "contexts.\"a b\": a context's name"),
            ("[contexts.prod]\ntls_ca = \"x\"".into(), 1, "contexts.prod: endpoint is missing"),
            ("[contexts.prod]\nendpoint = \"https://me:pw@a\"".into(), 2, "endpoint: must not hold a user"),
            ("[contexts.prod]\nendpoint = 50051".into(), 2, "contexts.prod.endpoint: must be a text"),
            (with("token = \"s3cret\""), 3, "contexts.prod.token: a token never stands here"),
            (with("tokenfile = \"x\""), 3, "contexts.prod.tokenfile: unknown; there are endpoint, tls_ca"),
            (with("\"a b\" = \"x\""), 3, "contexts.prod.\"a b\": unknown"),
            (with("timeout = \"soon\""), 3, "contexts.prod.timeout: `soon` is not a duration"),
            (with("timeout = 10"), 3, "contexts.prod.timeout: must be a text"),
            (with("plaintext_token = \"yes\""), 3, "contexts.prod.plaintext_token: must be true or false"),
            (with("tls_key = \"x\""), 1, "contexts.prod.tls_key: is of no use without tls_cert"),
            (with("token_file = \" \""), 3, "contexts.prod.token_file: is empty"),
            (with("endpoint = \"b:1\""), 3, "duplicate key"),
            (with("timeout = "), 3, ""),
        ];
        for (text, line, says) in faults {
            let found = parse(&text).unwrap_err();
            let [fault] = &found[..] else { panic!("{text}: {found:?}") };
            assert_eq!(fault.line, line, "{text}: {fault:?}");
            assert!(fault.text.contains(says), "{text}: {fault:?}");
            assert!(!fault.text.contains("s3cret"), "{fault:?}");
        }
    }

    #[test]
    fn parse_reports_all_faults_together() {
        let text = "curent = \"a\"\n[contexts.prod]\nendpoint = 1\ntoken = \"s3cret\"\n";
        let lines: Vec<usize> = parse(text).unwrap_err().iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [1, 3, 4]);
    }
}
