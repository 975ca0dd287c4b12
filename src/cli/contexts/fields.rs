//! The fields of a context, as a table with their names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cli::connect_options::SourcedValue;

/// The longest name of a context: more than needed, and short enough for a line.
const NAME_MAX: usize = 64;

/// A field of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    Endpoint,
    TlsCa,
    TlsCert,
    TlsKey,
    TlsDomain,
    TokenFile,
    PlaintextToken,
    Timeout,
}

impl Field {
    pub(super) const ALL: [Field; 8] = [
        Field::Endpoint,
        Field::TlsCa,
        Field::TlsCert,
        Field::TlsKey,
        Field::TlsDomain,
        Field::TokenFile,
        Field::PlaintextToken,
        Field::Timeout,
    ];

    /// Its name in the file.
    pub(super) fn word(self) -> &'static str {
        match self {
            Field::Endpoint => "endpoint",
            Field::TlsCa => "tls_ca",
            Field::TlsCert => "tls_cert",
            Field::TlsKey => "tls_key",
            Field::TlsDomain => "tls_domain",
            Field::TokenFile => "token_file",
            Field::PlaintextToken => "plaintext_token",
            Field::Timeout => "timeout",
        }
    }

    /// Its name in JSON, in the style of the messages' fields.
    pub(super) fn camel(self) -> &'static str {
        match self {
            Field::Endpoint => "endpoint",
            Field::TlsCa => "tlsCa",
            Field::TlsCert => "tlsCert",
            Field::TlsKey => "tlsKey",
            Field::TlsDomain => "tlsDomain",
            Field::TokenFile => "tokenFile",
            Field::PlaintextToken => "plaintextToken",
            Field::Timeout => "timeout",
        }
    }

    pub(super) fn of(word: &str) -> Option<Field> {
        Field::ALL.into_iter().find(|field| field.word() == word)
    }

    /// Whether it is true or false; all others are texts.
    pub(super) fn is_bool(self) -> bool {
        self == Field::PlaintextToken
    }

    pub(super) fn is_path(self) -> bool {
        [Field::TlsCa, Field::TlsCert, Field::TlsKey, Field::TokenFile].contains(&self)
    }
}

/// The values of a context; a boolean is `true` or `false`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Context(pub(super) BTreeMap<Field, String>);

impl Context {
    pub(super) fn get(&self, field: Field) -> Option<&str> {
        self.0.get(&field).map(String::as_str)
    }
}

/// A file of contexts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contexts {
    pub(super) current: Option<String>,
    pub(super) named: BTreeMap<String, Context>,
}

impl Contexts {
    /// The names that exist, for a caller that has named none of them.
    pub(super) fn known(&self) -> String {
        if self.named.is_empty() {
            return "there is none yet: `context set NAME --endpoint URL` adds one".to_owned();
        }
        let names = self.named.keys().map(String::as_str).collect::<Vec<_>>();
        format!("there are: {}", names.join(", "))
    }
}

/// The chosen context, with the folder of its file.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) name: String,
    pub(super) context: Context,
    pub(super) folder: PathBuf,
}

impl Chosen {
    pub(super) fn text(&self, field: Field) -> Option<SourcedValue<String>> {
        let value = self.context.get(field)?.to_owned();
        Some(SourcedValue { value, by: format!("context {}: {}", self.name, field.word()) })
    }

    /// A path; a relative one starts at the folder of the contexts file.
    pub(super) fn path(&self, field: Field) -> Option<SourcedValue<PathBuf>> {
        let SourcedValue { value, by } = self.text(field)?;
        Some(SourcedValue { value: self.folder.join(value), by })
    }
}

/// The folder of a file.
pub(super) fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

///
/// # Errors
/// The text is not a valid name of a context.
pub(super) fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
    if (1..=NAME_MAX).contains(&text.len()) && text.chars().all(fits) {
        return Ok(text.to_owned());
    }
    Err(format!("a context's name has 1 to {NAME_MAX} letters of A-Z, a-z, 0-9, `.`, `_` and `-`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_names_are_single_words() {
        let (long, longer) = ("x".repeat(NAME_MAX), "x".repeat(NAME_MAX + 1));
        for (text, fits) in [
            ("prod", true),
            ("a.b_c-D9", true),
            (&long, true),
            (&longer, false),
            ("", false),
            ("a b", false),
            ("a\u{1b}[31m", false),
            ("ä", false),
            ("a/b", false),
        ] {
            assert_eq!(name(text).is_ok(), fits, "{text:?}");
        }
    }

    #[test]
    fn field_is_found_by_its_word() {
        for field in Field::ALL {
            assert_eq!(Field::of(field.word()), Some(field));
            assert_eq!(field.camel().to_lowercase(), field.word().replace('_', ""));
        }
        assert_eq!(Field::of("token"), None);
    }

    #[test]
    fn relative_path_starts_at_the_file() {
        assert_eq!(folder(Path::new("contexts.toml")), Path::new("."));
        let context = Context(BTreeMap::from([
            (Field::TlsCa, "ca.pem".to_owned()),
            (Field::TokenFile, "/run/token".to_owned()),
        ]));
        let chosen = Chosen { name: "prod".into(), context, folder: "/etc/ledger".into() };
        let ca = chosen.path(Field::TlsCa).unwrap();
        assert_eq!((ca.value, ca.by), ("/etc/ledger/ca.pem".into(), "context prod: tls_ca".into()));
        assert_eq!(chosen.path(Field::TokenFile).unwrap().value, Path::new("/run/token"));
    }
}
