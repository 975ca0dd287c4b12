//! Each value of the configuration is read by the code that it is for. A field that is only filled in changes nothing, and neither the
//! compiler nor a test of the configuration sees that.

use std::path::Path;

use super::{code, files};

/// The structs that carry values of the configuration, and their files.
const CARRIERS: [(&str, &str); 12] = [
    ("src/server/config/checked.rs", "Config"),
    ("src/server/config/identity.rs", "IdentitySettings"),
    ("src/server/config/identity.rs", "TlsFiles"),
    ("src/server/config/issuers.rs", "IssuerSettings"),
    ("src/server/config/http.rs", "HttpSettings"),
    ("src/rpc/mod.rs", "ServeOptions"),
    ("src/listener/options.rs", "ConnectionLimits"),
    ("src/accounts/limits.rs", "PrincipalLimits"),
    ("src/wire/fields.rs", "Limits"),
    ("src/ledger/options.rs", "LedgerOptions"),
    ("src/ledger/upkeep/purge.rs", "PurgeOptions"),
    ("src/store/postgres/mod.rs", "PostgresOptions"),
];

/// The public fields of a struct.
fn fields(file: &str, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let (_, body) =
        text.split_once(&format!("pub struct {name} {{\n")).unwrap_or_else(|| panic!("{name} in {file}"));
    let body = body.split("\n}\n").next().unwrap();
    let lines = body.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(": "));
    lines.map(|(field, _)| field.to_owned()).collect()
}

/// Whether the code reads a field: by its name behind a dot, or in a pattern that takes the struct apart.
fn reads(code: &str, name: &str, field: &str) -> bool {
    let ends =
        |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_' || next == '(');
    let by_name = code.match_indices(&format!(".{field}")).any(|(at, found)| ends(&code[at + found.len()..]));
    let pattern = format!("let {name} {{");
    let patterns = code.match_indices(&pattern).map(|(at, _)| code[at..].split('}').next().unwrap());
    let in_pattern =
        patterns.flat_map(|pattern| pattern.split(['{', ',', ':'])).any(|part| part.trim() == field);
    by_name || in_pattern
}

#[test]
fn each_value_of_the_configuration_is_read() {
    let fills_in =
        |path: &Path| ["config/checked.rs", "config/settings.rs"].iter().any(|end| path.ends_with(end));
    let all = files("src").into_iter().filter(|(path, _)| !fills_in(path));
    let all: Vec<String> = all.map(|(_, text)| code(text.split("\n#[cfg(test").next().unwrap())).collect();
    for (file, name) in CARRIERS {
        let fields = fields(file, name);
        assert!(fields.len() >= 2, "{name} has fields");
        for field in fields {
            assert!(
                all.iter().any(|code| reads(code, name, &field)),
                "{name}.{field} is filled in, and read nowhere"
            );
        }
    }
}

#[test]
fn what_is_not_read_is_found() {
    for (what, code, read) in [
        ("a read", "let a = options.lock_wait;", true),
        ("a read of another field", "let a = options.lock_waits;", false),
        ("a call of the same name", "options.lock_wait()", false),
        ("a pattern", "let Options { sessions, lock_wait, .. } = options;", true),
        ("a pattern of another struct", "let Others { lock_wait } = options;", false),
        ("only filled in", "Options { lock_wait: x, ..y }", false),
    ] {
        assert_eq!(reads(code, "Options", "lock_wait"), read, "{what}");
    }
}
