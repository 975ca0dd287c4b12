//! Warnings about a file of rights: valid lines that are probably mistakes.

use super::certificate::SPIFFE;
use super::pattern::Pattern;
use super::rights::{Right, Rights, RightsLine};
use super::tokens::Tokens;

/// A warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The line of the file; `None` if it is about something that is missing.
    pub line: Option<usize>,
    /// What is suspicious, and what to do.
    pub text: String,
}

/// The prefixes of principals, one for each source of identity.
const FORMS: [&str; 4] = ["token:", "jwt:", "spiffe://", "dns:"];

impl Rights {
    /// Probable mistakes, and tokens that expire soon, at this second since 1970.
    #[must_use]
    pub fn lint(&self, tokens: Option<&Tokens>, now: u64) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            let mut warn = |text: String| warnings.push(Warning { line: Some(line.number), text });
            of_principal(line, tokens, &mut warn);
            line.consumers.iter().for_each(|consumer| of_prefix(consumer, &mut warn));
            if let Some(other) = self.lines.iter().take(at).find(|other| covers(other, line)) {
                warn(format!("adds nothing to line {}, which allows all of it: take it out", other.number));
            }
            for (has, lacks, then) in [
                (Right::Claim, Right::Settle, "each claim would run until its lease is over: add settle"),
                (
                    Right::Settle,
                    Right::Claim,
                    "it holds no claims that it could settle: add claim, or remove settle",
                ),
            ] {
                if line.may.contains(&has) && !self.also(line, lacks) {
                    warn(format!("{} may {has} and not {lacks}: {then}", line.principal));
                }
            }
        }
        for principal in tokens.map_or_else(Vec::new, Tokens::principals) {
            if !self.lines.iter().any(|line| line.principal.fits(principal)) {
                let text = format!("{principal} has a token, and no line that allows it anything");
                warnings.push(Warning { line: None, text });
            }
        }
        let ending = tokens.map_or_else(Vec::new, |tokens| tokens.ending(now));
        warnings.extend(ending.iter().map(|ending| Warning { line: None, text: ending.to_string() }));
        warnings
    }

    /// Whether the principal of a line also has this right, for all consumers of the line.
    fn also(&self, line: &RightsLine, right: Right) -> bool {
        let lines = || {
            let fit = self.lines.iter().filter(|other| other.principal.covers(&line.principal));
            fit.filter(|other| other.may.contains(&right))
        };
        let has = |consumer| lines().any(|other| other.consumers.iter().any(|one| one.covers(consumer)));
        line.consumers.iter().all(has)
    }
}

fn of_principal(line: &RightsLine, tokens: Option<&Tokens>, warn: &mut impl FnMut(String)) {
    let principal = &line.principal;
    let (Pattern::Exact(text) | Pattern::Prefix(text)) = principal;
    if principal.is_all() {
        let does = if line.may.iter().any(|right| *right != Right::Read) { "change" } else { "read" };
        warn(format!("every authenticated caller may {does} something: name the principals that may"));
        return;
    }
    // A prefix pattern may end within the prefix of the form.
    let is_prefix = matches!(principal, Pattern::Prefix(_));
    if !FORMS.iter().any(|form| text.starts_with(form) || is_prefix && form.starts_with(&**text)) {
        warn(format!("no principal looks like {principal}: they begin with {}", FORMS.join(", ")));
    }
    match wider(text).filter(|_| is_prefix) {
        Some(wider) => warn(format!("{principal} also fits {wider}")),
        None => of_prefix(principal, warn),
    }
    let known = |tokens: &Tokens| tokens.principals().iter().any(|one| principal.fits(one));
    if text.starts_with("token:") && tokens.is_some_and(|tokens| !known(tokens)) {
        warn(format!("no token stands for {principal}"));
    }
}

/// Warns of a prefix that ends within a word: it also matches names in which the word goes on.
fn of_prefix(pattern: &Pattern, warn: &mut impl FnMut(String)) {
    let Pattern::Prefix(prefix) = pattern else { return };
    let Some(last) = prefix.chars().next_back().filter(|last| last.is_alphanumeric()) else { return };
    let more = if last.is_numeric() { '0' } else { 'b' };
    warn(format!(
        "{pattern} also fits {prefix}{more}: end it with a separator, like {prefix}-*, or write the names out"
    ));
}

/// An example of what a prefix also matches, although it seems to name one domain or issuer; `None` if it is not misleading.
fn wider(prefix: &str) -> Option<String> {
    if let Some(domain) = prefix.strip_prefix(SPIFFE) {
        let open = !domain.is_empty() && !domain.contains('/');
        return open.then(|| format!("other trust domains, like {prefix}.evil/: end it with /*"));
    }
    if let Some(issuer) = prefix.strip_prefix("jwt:") {
        let open = !issuer.is_empty() && !issuer.contains(':');
        return open.then(|| format!("other issuers, like {prefix}2: end it with :*"));
    }
    // The domain is at the end of a DNS name.
    let name = prefix.strip_prefix("dns:").filter(|name| !name.is_empty());
    name.map(|_| format!("names of other domains, like {prefix}.evil: write the names out"))
}

/// Whether one line allows everything that the other allows.
fn covers(one: &RightsLine, other: &RightsLine) -> bool {
    one.principal.covers(&other.principal)
        && other.may.iter().all(|right| one.may.contains(right))
        && other.consumers.iter().all(|name| one.consumers.iter().any(|pattern| pattern.covers(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lint_reports_probable_mistakes() {
        let line = |principal: &str, consumers: &str, may: &str| {
            format!("[[rights]]\nprincipal = '{principal}'\nconsumers = [{consumers}]\nmay = [{may}]\n")
        };
        let both = "'claim', 'settle'";
        let hash = format!("sha256:{}", "1".repeat(64));
        let tokens = Tokens::read(&format!("[tokens]\none = ['{hash}']\n")).expect("tokens");
        for (text, warnings) in [
            (line("token:one", "'a', 'b-*'", both), &[][..]),
            (line("token:one", "'a'", "'claim'") + &line("token:*", "'*'", "'settle', 'claim'"), &[]),
            (
                line("token:one", "'a'", both) + &line("*", "'*'", "'read'"),
                &["every authenticated caller may read something"],
            ),
            (line("token:o*", "'a'", "'read'"), &["token:o* also fits token:ob: end it with a separator"]),
            (line("tok*", "'a'", "'read'"), &["tok* also fits tokb"]),
            (
                line("token:one", "'a*', 'b.*', 'c/*', 'd:*', 'e_*', 'f-1*', 'g', '*'", "'read'"),
                &["a* also fits ab: end it with a separator, like a-*", "f-1* also fits f-10"],
            ),
            (line("token:one", "'a'", "'claim'"), &["may claim and not settle"]),
            (line("token:one", "'a'", "'settle'"), &["may settle and not claim"]),
            (
                line("token:one", "'a', 'b'", "'claim'") + &line("token:one", "'a'", "'settle', 'claim'"),
                &["may claim and not settle"],
            ),
            (
                line("token:one", "'a-*'", both) + &line("token:one", "'a-b'", "'claim', 'settle'"),
                &["adds nothing to line 1"],
            ),
            (
                line("*", "'a'", both) + &line("token:one", "'x'", "'read'"),
                &["every authenticated caller may change something"],
            ),
            (
                line("one", "'a'", "'read'") + &line("token:one", "'a'", "'read'"),
                &["no principal looks like one"],
            ),
            (line("token:two", "'a'", "'read'"), &["no token stands for token:two", "token:one has a token"]),
        ] {
            let found = Rights::read(&text).expect("rights").lint(Some(&tokens), 0);
            let warnings_found: Vec<&str> = found.iter().map(|warning| warning.text.as_str()).collect();
            assert_eq!(warnings_found.len(), warnings.len(), "{text}: {warnings_found:?}");
            for (warnings_found, says) in warnings_found.iter().zip(warnings) {
                assert!(warnings_found.contains(says), "{says}: {warnings_found}");
            }
        }
    }

    #[test]
    fn lint_reports_tokens_that_expire() {
        let rights = Rights::read("[[rights]]\nprincipal = 'token:*'\nconsumers = ['a']\nmay = ['read']\n");
        let hash = format!("sha256:{}", "1".repeat(64));
        let file = format!("[tokens]\none = [{{ hash = '{hash}', expires = 1970-03-01T00:00:00Z }}]\n");
        let (rights, tokens) = (rights.expect("rights"), Tokens::read(&file).expect("tokens"));
        for (day, says) in
            [(0, ""), (44, ""), (45, "within 14 days"), (58, "within 1 day:"), (59, "ended"), (99, "ended")]
        {
            let warnings_found: Vec<String> =
                rights.lint(Some(&tokens), day * 86_400).into_iter().map(|one| one.text).collect();
            assert_eq!(warnings_found.len(), usize::from(!says.is_empty()), "day {day}: {warnings_found:?}");
            assert!(warnings_found.concat().contains(says), "day {day}: {warnings_found:?}");
        }
    }

    #[test]
    fn lint_reports_prefix_wider_than_it_looks() {
        for (principal, says) in [
            ("spiffe://shop*", "also fits other trust domains, like spiffe://shop.evil/"),
            ("spiffe://shop/*", ""),
            ("spiffe://shop/pay*", "also fits spiffe://shop/payb"),
            ("spiffe://shop/pay-*", ""),
            ("spiffe://*", ""),
            ("jwt:corp*", "also fits other issuers, like jwt:corp2"),
            ("jwt:corp:*", ""),
            ("jwt:corp:pay*", "also fits jwt:corp:payb"),
            ("jwt:*", ""),
            ("dns:worker.shop*", "also fits names of other domains"),
            ("dns:worker.shop", ""),
            ("dns:*", ""),
            ("token:pay*", "also fits token:payb"),
            ("token:pay-*", ""),
            ("token:*", ""),
        ] {
            let text = format!("[[rights]]\nprincipal = '{principal}'\nconsumers = ['a']\nmay = ['read']\n");
            let warnings_found: Vec<String> = Rights::read(&text)
                .expect("rights")
                .lint(None, 0)
                .into_iter()
                .map(|warning| warning.text)
                .collect();
            let as_expected = match says {
                "" => warnings_found.is_empty(),
                says => warnings_found.len() == 1 && warnings_found.concat().contains(says),
            };
            assert!(as_expected, "{principal}: {warnings_found:?}");
        }
    }
}
