//! Files of tokens and rights, lists of proxies, and texts of TLS.

use std::time::Instant;

use idempotency_ledger::identity::{
    ClientAuthority, NewToken, OwnCertificate, Proxies, Right, Rights, Tokens, Whose, mangled,
};

use super::{SECONDS, bounded, naive, reasoned, text};
use crate::harness::pki::Pki;
use crate::harness::random::Random;
use crate::proof::fuzz::{mutate, until};
use crate::proof::run::Run;
use crate::proof::steps::pick;

const RIGHTS: &str = "[[rights]]\nprincipal = 'token:p*'\nconsumers = ['c', 'c-*']\nmay = ['claim', 'settle']\n\
    [[rights]]\nprincipal = \"spiffe://shop/a\"\nconsumers = [\"*\"]\nmay = [\"read\"]\n\
    [[rights]]\nprincipal = '*'\nconsumers = ['d', 'd', 'e*']\nmay = ['admin', 'read']\n";
const PRINCIPALS: [&str; 9] =
    ["token:p", "token:p0", "token:", "token:q", "spiffe://shop/a", "spiffe://shop/ab", "anonymous", "*", ""];
const CONSUMERS: [&str; 10] = ["c", "c-", "c-eu", "d", "d2", "e", "ef", "*", "c*", ""];

/// A file of rights of our own making: mangled bytes are hardly ever one.
fn rights(random: &mut Random) -> String {
    let line = |random: &mut Random| {
        let star = |random: &mut Random, name: &str| match random.below(3) {
            0 => format!("{}*", name.trim_end_matches('*')),
            _ => name.trim_end_matches('*').to_owned(),
        };
        let principal = *pick(random, &PRINCIPALS);
        let principal = star(random, principal);
        let names = 1 + random.below(3);
        let consumers: Vec<String> = (0..names)
            .map(|_| {
                let name = *pick(random, &CONSUMERS);
                star(random, name)
            })
            .collect();
        let may: Vec<&str> = (0..1 + random.below(4)).map(|_| pick(random, &Right::ALL).word()).collect();
        format!("[[rights]]\nprincipal = {principal:?}\nconsumers = {consumers:?}\nmay = {may:?}\n")
    };
    (0..random.below(6)).map(|_| line(random)).collect()
}

#[test]
fn mangled_files_of_rights() {
    let mut run = Run::new("fuzz-rights", SECONDS);
    let mut random = Random::new(run.seed);
    let (end, mut tried, mut read, mut allowed) = (until(&run), 0_u64, 0_u64, 0_u64);
    while Instant::now() < end {
        let file = match random.below(3) {
            0 => text(&mutate(&mut random, &[RIGHTS.as_bytes().to_vec()])),
            _ => rights(&mut random),
        };
        tried += 1;
        match bounded(&run, "a file of rights", file.as_bytes(), || Rights::read(&file)) {
            Err(problems) => reasoned(&run, "rights", file.as_bytes(), &problems),
            Ok(rights) => {
                read += 1;
                let table: toml::Table = file.parse().unwrap();
                for _ in 0..8 {
                    let (principal, right) =
                        (*pick(&mut random, &PRINCIPALS), *pick(&mut random, &Right::ALL));
                    let consumer = random.percent(80).then(|| *pick(&mut random, &CONSUMERS));
                    let whose = consumer.map_or(Whose::All, Whose::Consumer);
                    let found = rights.of(principal).allow(right, whose);
                    let by_line = rights.line_for(principal, right, whose).is_some();
                    let expected = naive::allows(&table, principal, right.word(), consumer);
                    allowed += u64::from(found);
                    if found != expected || by_line != expected {
                        let problem = format!(
                            "{principal} {right} {whose:?}: {found} and {by_line}, must be {expected}"
                        );
                        run.fail(problem, &[("rights.toml", file.clone())]);
                    }
                }
            }
        }
        let elapsed = run.elapsed().as_secs();
        run.progress(elapsed, format!("{tried} files"));
    }
    assert!(read > 0 && read < tried && allowed > 0);
    run.summary(format!(
        "{tried} files of rights, {read} of them read, {allowed} of {} questions allowed",
        8 * read
    ));
}

#[test]
fn mangled_files_of_tokens() {
    let mut run = Run::new("fuzz-tokens", SECONDS);
    let mut random = Random::new(run.seed);
    let people: Vec<NewToken> = (0..4).map(|at| NewToken::make(&format!("p{at}")).unwrap()).collect();
    let hash = |at: usize| &people[at].hash;
    let files = [
        format!(
            "[tokens]\na = [{:?}, {:?}]\nb-c.d_e = [{:?}]\n'f' = ['{}']\n",
            hash(0),
            hash(1),
            hash(2),
            hash(3)
        ),
        format!(
            "tokens.a = ['{}']\ntokens.b = ['{}']\n",
            hash(0),
            hash(1).replace(['a', 'b', 'c', 'd', 'e', 'f'], "A")
        ),
        format!("tokens = {{ a = ['{}'], \"b\" = [\"{}\"] }}\n", hash(2), hash(3)),
    ];
    let files = files.map(String::into_bytes);
    let (end, mut tried, mut read, mut known) = (until(&run), 0_u64, 0_u64, 0_u64);
    while Instant::now() < end {
        let file = match random.below(4) {
            0 => text(pick::<Vec<u8>>(&mut random, &files)),
            _ => text(&mutate(&mut random, &files)),
        };
        tried += 1;
        match bounded(&run, "a file of tokens", file.as_bytes(), || Tokens::read(&file)) {
            Err(problems) => reasoned(&run, "tokens", file.as_bytes(), &problems),
            Ok(tokens) => {
                read += 1;
                let mut presented: Vec<Vec<u8>> =
                    people.iter().map(|one| one.token.clone().into_bytes()).collect();
                presented.push(mutate(&mut random, &presented));
                let near = &pick(&mut random, &people).token;
                for token in [
                    "",
                    hash(0),
                    &format!("{near} "),
                    &format!("\t{near}"),
                    &near.to_lowercase(),
                    &near.to_uppercase(),
                ] {
                    presented.push(token.as_bytes().to_vec());
                }
                for token in presented {
                    let (found, expected) = (mangled::token(&tokens, &token), naive::holder(&file, &token));
                    known += u64::from(found.is_some());
                    if found != expected.as_deref() {
                        let evidence = [("tokens.toml", file.clone()), ("token", text(&token))];
                        run.fail(format!("{found:?}, must be {expected:?}"), &evidence);
                    }
                }
            }
        }
        let elapsed = run.elapsed().as_secs();
        run.progress(elapsed, format!("{tried} files"));
    }
    assert!(read > 0 && read < tried && known > 0);
    run.summary(format!("{tried} files of tokens, {read} of them read, {known} tokens known by them"));
}

/// No part of a private key is told.
fn tells_nothing_of(run: &Run, key: &str, problem: &str, input: &[u8]) {
    let body: Vec<char> = key.lines().filter(|line| !line.starts_with('-')).flat_map(str::chars).collect();
    let told = body.windows(12).any(|part| problem.contains(&part.iter().collect::<String>()));
    if told {
        run.fail(format!("a part of the key is told: {problem}"), &[("input", text(input))]);
    }
}

#[test]
fn mangled_texts_of_tls_and_lists_of_proxies() {
    let mut run = Run::new("fuzz-tls-texts", SECONDS);
    let mut random = Random::new(run.seed);
    let pki = Pki::new();
    let (certificate, key) = pki.signed("localhost");
    let (authority, revoked) = (pki.issuer.pem(), pki.revoked(&[1, 2]));
    let texts = [&certificate, &key, &authority, &revoked].map(|text| text.clone().into_bytes());
    let proxies = [b"10.0.0.0/8,192.0.2.7,2001:db8::/32,spiffe://mesh/gateway,dns:gateway".to_vec()];
    let (end, mut tried, mut read) = (until(&run), 0_u64, 0_u64);
    while Instant::now() < end {
        let input = mutate(&mut random, &texts);
        let own =
            bounded(&run, "a certificate", &input, || OwnCertificate::read(&input, key.as_bytes()).map(drop));
        let own_key =
            bounded(&run, "a key", &input, || OwnCertificate::read(certificate.as_bytes(), &input).map(drop));
        let clients = bounded(&run, "an authority", &input, || ClientAuthority::read(&input, None).map(drop));
        let lists = bounded(&run, "a list of what is revoked", &input, || {
            ClientAuthority::read(authority.as_bytes(), Some(&input)).map(drop)
        });
        for answer in [own, own_key, clients, lists] {
            match answer {
                Ok(()) => read += 1,
                Err((which, problem)) => {
                    reasoned(&run, which, &input, std::slice::from_ref(&problem));
                    tells_nothing_of(&run, &key, &problem, &input);
                }
            }
        }
        let list = text(&mutate(&mut random, &proxies));
        match bounded(&run, "a list of proxies", list.as_bytes(), || Proxies::read(list.split(','))) {
            Ok(_) => read += 1,
            Err(problems) => reasoned(&run, "proxies", list.as_bytes(), &problems),
        }
        tried += 5;
        let elapsed = run.elapsed().as_secs();
        run.progress(elapsed, format!("{tried} texts"));
    }
    assert!(read > 0 && read < tried);
    run.summary(format!("{tried} texts of TLS and lists of proxies, {read} of them read"));
}
