//! The file of bearer tokens: of each, its hash alone.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::rights::problem_of;
use crate::random;

/// What a token of ours begins with, so that a scanner of leaked secrets can find it.
const PREFIX: &str = "ilt_";
/// As many as nobody can guess.
const SECRET_BYTES: usize = 32;
const HASH_PREFIX: &str = "sha256:";
const HASH_BYTES: usize = 32;
/// An old and a new one, while a name's token is replaced.
const VALID_AT_ONCE_MAX: usize = 2;
const NAMES_MAX: usize = 10_000;
const NAME_BYTES_MAX: usize = 64;

pub(super) type Hash = [u8; HASH_BYTES];

/// The hash of a token.
pub(super) fn hash(token: &[u8]) -> Hash {
    Hash::from(Sha256::digest(token))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    tokens: BTreeMap<String, Vec<String>>,
}

/// The tokens that are valid: the hash of each, and the principal that it stands for.
#[derive(Clone, Debug, Default)]
pub struct Tokens(HashMap<Hash, Arc<str>>);

impl Tokens {
    /// Reads the file's text.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn read(text: &str) -> Result<Tokens, Vec<String>> {
        let File { tokens } = toml::from_str(text).map_err(|error| vec![problem_of(text, &error)])?;
        if tokens.len() > NAMES_MAX {
            return Err(vec![format!("has {} names, must have at most {NAMES_MAX}", tokens.len())]);
        }
        let (mut found, mut problems) = (HashMap::new(), Vec::new());
        for (name, hashes) in &tokens {
            if let Err(text) = checked_name(name) {
                problems.push(format!("tokens.{name:?}: {text}"));
            }
            if hashes.is_empty() || hashes.len() > VALID_AT_ONCE_MAX {
                problems.push(format!(
                    "tokens.{name:?}: has {} hashes, must have 1 or {VALID_AT_ONCE_MAX}: the old token's and the new \
                     one's; without any, leave the name out",
                    hashes.len()
                ));
            }
            let principal: Arc<str> = principal(name).into();
            for text in hashes {
                match hash_of(text) {
                    Some(hash) if hash == Hash::from(Sha256::digest(b"")) => problems.push(format!(
                        "tokens.{name:?}: a value is the hash of nothing: whoever sends no token behind `Bearer` would \
                         be let in"
                    )),
                    Some(hash) if found.insert(hash, Arc::clone(&principal)).is_some() => {
                        problems.push(format!("tokens.{name:?}: a hash stands in the file twice"));
                    }
                    Some(_) => {}
                    None => problems.push(format!(
                        "tokens.{name:?}: a value is not `{HASH_PREFIX}` and 64 hexadecimal digits; a token itself must \
                         not stand here"
                    )),
                }
            }
        }
        if problems.is_empty() { Ok(Tokens(found)) } else { Err(problems) }
    }

    /// The principal that the token of this hash stands for.
    pub(super) fn principal(&self, hash: &Hash) -> Option<&Arc<str>> {
        // Who does not have the token cannot aim at a hash: how long the look-up takes tells nothing.
        self.0.get(hash)
    }

    /// All principals, each once.
    #[must_use]
    pub fn principals(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.0.values().map(AsRef::as_ref).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn principal(name: &str) -> String {
    format!("token:{name}")
}

/// A name goes into logs and into the file of rights.
fn checked_name(name: &str) -> Result<(), String> {
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(sound) {
        return Err(format!(
            "a name has 1 to {NAME_BYTES_MAX} letters, digits, dots, dashes and underscores"
        ));
    }
    Ok(())
}

fn hash_of(text: &str) -> Option<Hash> {
    let digits = text.strip_prefix(HASH_PREFIX)?;
    let mut hash = Hash::default();
    hex::decode_to_slice(digits, &mut hash).ok()?;
    Some(hash)
}

/// A token that was just made: it is shown once.
#[derive(Debug)]
pub struct NewToken {
    /// What its holder sends.
    pub token: String,
    /// What stands in the file.
    pub hash: String,
    /// Whom it stands for.
    pub principal: String,
}

impl NewToken {
    /// A new token for this name.
    ///
    /// # Errors
    /// The name cannot be one, or the system has no random bytes.
    pub fn make(name: &str) -> Result<NewToken, String> {
        checked_name(name)?;
        let secret: [u8; SECRET_BYTES] = random::secret()?;
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
        let hash = format!("{HASH_PREFIX}{}", hex::encode(Sha256::digest(&token)));
        Ok(NewToken { token, hash, principal: principal(name) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_was_made_is_known_by_its_hash() {
        let (one, other) =
            (NewToken::make("payments").expect("a token"), NewToken::make("payments").expect("a token"));
        assert_ne!(one.token, other.token);
        assert_eq!(one.token.len(), PREFIX.len() + 43, "32 bytes in base64");
        let tokens = Tokens::read(&format!("[tokens]\npayments = ['{}', '{}']\n", one.hash, other.hash));
        let tokens = tokens.expect("tokens");
        for token in [&one.token, &other.token] {
            assert_eq!(tokens.principal(&hash(token.as_bytes())).map(AsRef::as_ref), Some("token:payments"));
        }
        for wrong in ["", "ilt_", &one.hash, &one.token[..46], &format!("{} ", one.token)] {
            assert!(tokens.principal(&hash(wrong.as_bytes())).is_none(), "{wrong}");
        }
        assert_eq!(tokens.principals(), ["token:payments"]);
    }

    #[test]
    fn what_is_wrong_is_told_without_what_stands_there() {
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
                "is the hash of nothing",
            ),
            ("[token]\na = 1".into(), "line 1: unknown field `token`"),
            ("a = ".into(), "line 1: "),
        ] {
            let problems = Tokens::read(&text).expect_err(&text);
            assert!(problems.iter().any(|one| one.contains(says)), "{says}: {problems:?}");
            assert!(!problems.concat().contains("secret"), "{problems:?}");
        }
        for name in ["", "a b", "ä", "a/b", &"a".repeat(65)] {
            assert!(NewToken::make(name).is_err(), "{name}");
        }
    }
}
