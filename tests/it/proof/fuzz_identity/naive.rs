//! What is true of credentials, said once more, as simply as can be. Where the server refuses more than this does, that
//! is its right; where it knows somebody, it must be the one that is known here.

use sha2::{Digest as _, Sha256};

/// The text, cut at each of these signs that stands in no quotes.
fn cut(text: &str, at: char) -> Vec<String> {
    let (mut parts, mut quoted, mut escaped) = (vec![String::new()], false, false);
    for char in text.chars() {
        if char == at && !quoted {
            parts.push(String::new());
            continue;
        }
        quoted ^= char == '"' && !escaped;
        escaped = char == '\\' && quoted && !escaped;
        parts.last_mut().unwrap().push(char);
    }
    parts
}

/// The value without its quotes.
fn bare(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) else {
        return value.to_owned();
    };
    let (mut bare, mut escaped) = (String::new(), false);
    for char in inner.chars() {
        escaped = char == '\\' && !escaped;
        if !escaped {
            bare.push(char);
        }
    }
    bare
}

/// The SPIFFE ids in the last element of a forwarding header.
pub(super) fn forwarded(header: &str) -> Vec<String> {
    let last = cut(header, ',').pop().unwrap();
    let pairs = cut(&last, ';').into_iter().filter_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        key.trim().eq_ignore_ascii_case("uri").then(|| bare(value))
    });
    pairs.filter(|uri| uri.starts_with("spiffe://")).collect()
}

/// The token of an `authorization` header.
pub(super) fn bearer(header: &[u8]) -> Option<&[u8]> {
    let blank = header.iter().position(|byte| *byte == b' ')?;
    header[..blank].eq_ignore_ascii_case(b"bearer").then(|| &header[blank + 1..])
}

/// The name that a file of tokens has for this one.
pub(super) fn holder(file: &str, token: &[u8]) -> Option<String> {
    let file: toml::Table = file.parse().ok()?;
    let hash = format!("sha256:{}", hex::encode(Sha256::digest(token)));
    let is_of = |hashes: &toml::Value| {
        let hashes = hashes.as_array().into_iter().flatten().filter_map(toml::Value::as_str);
        hashes.map(str::to_ascii_lowercase).any(|one| one == hash)
    };
    let tokens = file.get("tokens")?.as_table()?;
    let (name, _) = tokens.iter().find(|(_, hashes)| is_of(hashes))?;
    Some(format!("token:{name}"))
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.len() >= prefix.len() && &name.as_bytes()[..prefix.len()] == prefix.as_bytes(),
        None => pattern == name,
    }
}

/// Whether a file of rights allows it; without a consumer, for all of them.
pub(super) fn allows(file: &toml::Table, principal: &str, right: &str, consumer: Option<&str>) -> bool {
    let texts = |line: &toml::Value, field: &str| -> Vec<String> {
        let values = line[field].as_array().unwrap().iter();
        values.map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    let lines = file.get("rights").and_then(toml::Value::as_array);
    lines.into_iter().flatten().any(|line| {
        fits(line["principal"].as_str().unwrap(), principal)
            && texts(line, "may").iter().any(|may| may == right)
            && texts(line, "consumers").iter().any(|pattern| match consumer {
                Some(consumer) => fits(pattern, consumer),
                None => pattern == "*",
            })
    })
}

/// Whether an IPv4 address lies in one of these networks.
pub(super) fn listed(networks: &[&str], address: std::net::Ipv4Addr) -> bool {
    networks.iter().any(|network| {
        let (base, bits) = network.split_once('/').unwrap_or((network, "32"));
        let Ok(base) = base.parse::<std::net::Ipv4Addr>() else { return false };
        let shift = 32 - bits.parse::<u32>().unwrap();
        u32::from(base).checked_shr(shift) == u32::from(address).checked_shr(shift)
    })
}

/// Whether a certificate holds this name as a general name: its tag, its length, its letters. A reader may be lenient
/// about how a length is written, and about the bit that says of what a value is made: the authority signs both.
pub(super) fn holds(certificate: &[u8], tag: u8, name: &str) -> bool {
    const CONSTRUCTED: u8 = 0x20;
    let [.., high, low] = name.len().to_be_bytes();
    let lengths = [&[low][..], &[0x81, low], &[0x82, high, low]];
    let found = |length: &[u8]| {
        let wanted = [length, name.as_bytes()].concat();
        let tags = certificate.windows(wanted.len() + 1).filter(|window| window[1..] == wanted);
        tags.map(|window| window[0] & !CONSTRUCTED).any(|found| found == tag)
    };
    lengths.into_iter().any(found)
}
