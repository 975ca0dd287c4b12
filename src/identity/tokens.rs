//! The file of bearer tokens: it holds only their hashes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use toml::Value;

use super::rights::problem_of;
use super::token_ends::{Ending, ending, instant, written};
use crate::common::random;

/// The prefix of tokens, so that scanners for leaked secrets can find them.
const PREFIX: &str = "ilt_";
/// The random part of a token: 256 bits cannot be guessed.
const SECRET_BYTES: usize = 32;
const HASH_PREFIX: &str = "sha256:";
/// The names of fields in the file.
const HASH: &str = "hash";
const EXPIRES: &str = "expires";
const HASH_BYTES: usize = 32;
/// Two valid tokens for each name, so that a token can be replaced without an interruption.
const VALID_TOKENS_MAX: usize = 2;
const NAMES_MAX: usize = 10_000;
const NAME_BYTES_MAX: usize = 64;

pub(super) type Hash = [u8; HASH_BYTES];

/// The hash of a token.
pub(super) fn hash(token: &[u8]) -> Hash {
    Hash::from(Sha256::digest(token))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokensFile {
    #[serde(default)]
    tokens: BTreeMap<String, Vec<Value>>,
}

/// The principal of a token, and its expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownToken {
    pub(super) principal: Arc<str>,
    /// The expiry in seconds since 1970; `None` if it does not expire.
    pub(super) expires: Option<u64>,
}

/// The tokens of the file, by hash.
#[derive(Clone, Debug, Default)]
pub struct Tokens(HashMap<Hash, KnownToken>);

impl Tokens {
    /// Reads the file's text.
    ///
    /// # Errors
    /// All problems.
    pub fn read(text: &str) -> Result<Tokens, Vec<String>> {
        let TokensFile { tokens } = toml::from_str(text).map_err(|error| vec![problem_of(text, &error)])?;
        if tokens.len() > NAMES_MAX {
            return Err(vec![format!("has {} names, must have at most {NAMES_MAX}", tokens.len())]);
        }
        let (mut found, mut problems) = (HashMap::new(), Vec::new());
        for (name, hashes) in &tokens {
            if let Err(text) = checked_name(name) {
                problems.push(format!("tokens.{name:?}: {text}"));
            }
            if hashes.is_empty() || hashes.len() > VALID_TOKENS_MAX {
                problems.push(format!(
                    "tokens.{name:?}: has {} hashes, must have 1 or {VALID_TOKENS_MAX}: the old token's and the new \
                     one's; without any, leave the name out",
                    hashes.len()
                ));
            }
            let principal: Arc<str> = principal(name).into();
            for value in hashes {
                let principal = Arc::clone(&principal);
                match entry(value) {
                    Ok((hash, _)) if hash == Hash::from(Sha256::digest(b"")) => problems.push(format!(
                        "tokens.{name:?}: a value is the hash of the empty text: a client that sends an empty token after `Bearer` \
                         would be accepted"
                    )),
                    Ok((hash, expires)) => {
                        if found.insert(hash, KnownToken { principal, expires }).is_some() {
                            problems.push(format!("tokens.{name:?}: a hash stands in the file twice"));
                        }
                    }
                    Err(text) => problems.push(format!("tokens.{name:?}: {text}")),
                }
            }
        }
        if problems.is_empty() { Ok(Tokens(found)) } else { Err(problems) }
    }

    /// The token with this hash, also if it has expired.
    pub(super) fn known(&self, hash: &Hash) -> Option<&KnownToken> {
        // A look-up by hash is safe against timing attacks: without the token, a caller cannot choose the hash.
        self.0.get(hash)
    }

    /// All principals, each once.
    #[must_use]
    pub fn principals(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.0.values().map(|known| &*known.principal).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The tokens that have expired at this second since 1970, or expire within 14 days, ordered by expiry.
    #[must_use]
    pub fn ending(&self, now: u64) -> Vec<Ending> {
        ending(self.ends(), now)
    }

    /// The first expiry of a token, in seconds since 1970; `None` if no token expires.
    #[must_use]
    pub fn first_end(&self) -> Option<u64> {
        self.ends().map(|(_, expires)| expires).min()
    }

    /// The principal and the expiry of each token that expires.
    fn ends(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.values().filter_map(|known| Some((&*known.principal, known.expires?)))
    }
}

fn principal(name: &str) -> String {
    format!("token:{name}")
}

/// Checks a name, which appears in logs and in the file of rights.
fn checked_name(name: &str) -> Result<(), String> {
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(sound) {
        return Err(format!(
            "a name has 1 to {NAME_BYTES_MAX} letters, digits, dots, dashes and underscores"
        ));
    }
    Ok(())
}

/// Reads a token of the file: its hash, or a table with hash and expiry.
fn entry(value: &Value) -> Result<(Hash, Option<u64>), String> {
    let no_hash = || {
        format!(
            "a value is not `{HASH_PREFIX}` and 64 hexadecimal digits; a token itself must not stand here"
        )
    };
    let of = |value: Option<&Value>| value.and_then(Value::as_str).and_then(hash_of).ok_or_else(no_hash);
    let Some(table) = value.as_table() else { return Ok((of(Some(value))?, None)) };
    if let Some(name) = table.keys().find(|name| !matches!(name.as_str(), HASH | EXPIRES)) {
        // An unknown name may be a secret token, so it is not quoted.
        let said = if name.len() > NAME_BYTES_MAX { "a long name" } else { "a name" };
        return Err(format!("a value has {said} other than `{HASH}` and `{EXPIRES}`"));
    }
    let expires = match table.get(EXPIRES) {
        None => None,
        Some(Value::Datetime(at)) => Some(instant(&at.to_string())),
        Some(Value::String(text)) => Some(instant(text)),
        Some(_) => Some(None),
    };
    match expires {
        Some(None) => Err(format!("`{EXPIRES}` is not an instant in UTC like 2027-03-01T00:00:00Z")),
        expires => Ok((of(table.get(HASH))?, expires.flatten())),
    }
}

fn hash_of(text: &str) -> Option<Hash> {
    let digits = text.strip_prefix(HASH_PREFIX)?;
    let mut hash = Hash::default();
    hex::decode_to_slice(digits, &mut hash).ok()?;
    Some(hash)
}

/// A newly generated token: it is shown once.
#[derive(Debug)]
pub struct NewToken {
    /// The token, which its holder sends.
    pub token: String,
    /// The hash in the file.
    pub hash: String,
    /// The principal of the token.
    pub principal: String,
    /// The line for the file: name, hash, and expiry if it has one.
    pub line: String,
}

impl NewToken {
    /// Generates a token for this name that does not expire.
    ///
    /// # Errors
    /// The name is not valid, or the system does not provide random bytes.
    pub fn make(name: &str) -> Result<NewToken, String> {
        NewToken::until(name, None)
    }

    /// Generates a token for this name, with an expiry in seconds since 1970.
    ///
    /// # Errors
    /// The name is not valid, or the system does not provide random bytes.
    pub fn until(name: &str, expires: Option<u64>) -> Result<NewToken, String> {
        checked_name(name)?;
        let secret: [u8; SECRET_BYTES] = random::secret()?;
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
        let hash = format!("{HASH_PREFIX}{}", hex::encode(Sha256::digest(&token)));
        let value = match expires {
            None => format!("\"{hash}\""),
            Some(at) => format!("{{ {HASH} = \"{hash}\", {EXPIRES} = {} }}", written(at)),
        };
        // A dot would split a bare TOML key in two.
        let key = if name.contains('.') { format!("\"{name}\"") } else { name.to_owned() };
        Ok(NewToken { token, hash, principal: principal(name), line: format!("{key} = [{value}]") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_token_is_known_by_its_hash() {
        let (one, other) =
            (NewToken::make("payments").expect("a token"), NewToken::make("payments").expect("a token"));
        assert_ne!(one.token, other.token);
        assert_eq!(one.token.len(), PREFIX.len() + 43, "32 bytes in base64");
        let tokens = Tokens::read(&format!("[tokens]\npayments = ['{}', '{}']\n", one.hash, other.hash));
        let tokens = tokens.expect("tokens");
        for token in [&one.token, &other.token] {
            let known = tokens.known(&hash(token.as_bytes())).map(|known| (&*known.principal, known.expires));
            assert_eq!(known, Some(("token:payments", None)));
        }
        for wrong in ["", "ilt_", &one.hash, &one.token[..46], &format!("{} ", one.token)] {
            assert!(tokens.known(&hash(wrong.as_bytes())).is_none(), "{wrong}");
        }
        assert_eq!(tokens.principals(), ["token:payments"]);
    }

    #[test]
    fn line_of_new_token_is_read_with_its_expiry() {
        for (name, expires) in [("payments", None), ("payments", Some(1_803_859_200)), ("pay.eu", Some(0))] {
            let made = NewToken::until(name, expires).expect("a token");
            let tokens = Tokens::read(&format!("[tokens]\n{}\n", made.line)).expect("tokens");
            let known = tokens.known(&hash(made.token.as_bytes())).expect("it is known");
            assert_eq!(
                (&*known.principal, known.expires),
                (&*format!("token:{name}"), expires),
                "{}",
                made.line
            );
        }
    }

    #[test]
    fn errors_do_not_quote_secret_values() {
        let digits = |digit: &str| format!("sha256:{}", digit.repeat(64));
        let (one, two, three) = (digits("1"), digits("2"), digits("3"));
        for (text, says) in [
            (format!("[tokens]\na = ['{one}', '{two}', '{three}']"), "has 3 hashes, must have 1 or 2"),
            ("[tokens]\na = []".into(), "has 0 hashes"),
            (format!("[tokens]\na = ['{one}']\nb = ['{one}']"), "stands in the file twice"),
            ("[tokens]\na = ['ilt_secret']".into(), "must not stand here"),
            (format!("[tokens]\na = ['{one}1']"), "64 hexadecimal digits"),
            (format!("[tokens]\n'a b' = ['{one}']"), "letters, digits"),
            (
                "[tokens]\na = ['sha256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855']"
                    .into(),
                "is the hash of the empty text",
            ),
            ("[tokens]\na = [5]".into(), "is not `sha256:`"),
            ("[tokens]\na = [{}]".into(), "is not `sha256:`"),
            ("[tokens]\na = [{ hash = 'ilt_secret' }]".into(), "must not stand here"),
            (format!("[tokens]\na = [{{ hash = '{one}', until = 1 }}]"), "other than `hash` and `expires`"),
            (
                format!("[tokens]\na = [{{ hash = '{one}', ilt_secret = 1 }}]"),
                "other than `hash` and `expires`",
            ),
            (format!("[tokens]\na = [{{ hash = '{one}', expires = 2027-03-01 }}]"), "an instant in UTC"),
            (
                format!("[tokens]\na = [{{ hash = '{one}', expires = 2027-03-01T00:00:00 }}]"),
                "an instant in UTC",
            ),
            (format!("[tokens]\na = [{{ hash = '{one}', expires = 'ilt_secret' }}]"), "an instant in UTC"),
            (format!("[tokens]\na = [{{ hash = '{one}', expires = 90 }}]"), "an instant in UTC"),
            (format!("[tokens]\na = [{{ hash = '{one}' }}]\nb = ['{one}']"), "stands in the file twice"),
            ("[token]\na = 1".into(), "line 1: unknown field `token`"),
            ("a = ".into(), "line 1: "),
        ] {
            let problems = Tokens::read(&text).expect_err(&text);
            assert!(problems.iter().any(|one| one.contains(says)), "{says}: {problems:?}");
            assert!(!problems.concat().contains("secret"), "{problems:?}");
        }
        let many = |count: usize| {
            let line = |number| format!("a{number} = ['sha256:{number:064x}']\n");
            format!("[tokens]\n{}", (0..count).map(line).collect::<String>())
        };
        assert!(Tokens::read(&many(NAMES_MAX)).is_ok());
        let problems = Tokens::read(&many(NAMES_MAX + 1)).expect_err("one too many");
        assert_eq!(problems, ["has 10001 names, must have at most 10000"]);
        for name in ["", "a b", "ä", "a/b", &"a".repeat(65)] {
            assert!(NewToken::make(name).is_err(), "{name}");
        }
    }
}
