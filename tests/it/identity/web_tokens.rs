//! JSON web tokens of configured issuers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use idempotency_ledger::identity::jwt::{Issuer, Keys};
use idempotency_ledger::identity::{Guard, KeyRefresh, NewToken, Rights, Tokens, Trust};
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};
use tonic::Request;

use super::{People, by, fresh, why, with};
use crate::harness::details::{claim, refusal};
use crate::harness::pki::Pki;
use crate::harness::raw;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::harness::timer::Timer;
use crate::process::{BINARY, Server};

const UNKNOWN: &str = "UNAUTHENTICATED";
pub(crate) const ISSUER: &str = "https://login.example";

/// Who signs tokens.
pub(crate) struct Signer {
    key: Ed25519KeyPair,
    pub(super) kid: &'static str,
}

impl Signer {
    pub(crate) fn new(kid: &'static str) -> Signer {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Signer { key: Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap(), kid }
    }

    /// Its public key, as an issuer publishes it.
    pub(crate) fn jwk(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.key.public_key());
        json!({ "kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": self.kid, "x": x })
    }

    fn jwks(&self) -> String {
        json!({ "keys": [self.jwk()] }).to_string()
    }

    pub(crate) fn keys(&self) -> Arc<Keys> {
        Arc::new(Keys::of_jwks(self.jwks().as_bytes()).unwrap())
    }

    pub(super) fn signs(&self, header: &Value, claims: &Value) -> String {
        self.signs_text(&header.to_string(), &claims.to_string())
    }

    /// Signs what is perhaps no JSON.
    pub(super) fn signs_text(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// A token with these claims beside or instead of the usual ones; null takes one out.
    pub(crate) fn token(&self, changes: &Value) -> String {
        let mut claims =
            json!({ "iss": ISSUER, "aud": "ledger", "sub": "pay", "exp": now() + 600, "nbf": now() - 5 });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        self.signs(&json!({ "alg": "EdDSA", "kid": self.kid }), &claims)
    }
}

#[allow(clippy::disallowed_methods, reason = "tokens are judged by the machine's own clock")]
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

const RIGHTS: &str =
    "[[rights]]\nprincipal = \"jwt:corp:pay\"\nconsumers = [\"c\"]\nmay = [\"claim\", \"read\"]\n";

pub(super) fn trust(keys: &Arc<Keys>) -> Trust {
    let issuer = Issuer::new("corp", ISSUER, &["ledger".into(), "other".into()], Arc::clone(keys)).unwrap();
    let mut people = People::new(&[("one", &[("c", "claim")])]);
    people.rights_file += RIGHTS;
    Trust { issuers: Arc::new([issuer]), key_refresh: KeyRefresh::of(1), ..people.trust() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_token_of_a_configured_issuer_names_its_subject() {
    let (ours, theirs) = (Signer::new("k1"), Signer::new("k1"));
    let trust = trust(&ours.keys());
    let key_refresh = trust.key_refresh.clone();
    let setup = Setup { guard: Guard::new(trust), ..Setup::default() };
    let mut server = TestServer::start_with(Kind::Sqlite, setup).await;
    let usual = json!({ "iss": ISSUER, "aud": "ledger", "sub": "pay", "exp": now() + 600 });
    let public = URL_SAFE_NO_PAD.encode(ours.key.public_key());
    let unsigned = |header: Value| {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(&header), part(&usual))
    };
    let rows: &[(&str, String, &str)] = &[
        ("sound", ours.token(&json!({})), ""),
        ("one of several audiences", ours.token(&json!({ "aud": ["x", "other"] })), ""),
        ("no kid, where the keys have ids", ours.signs(&json!({ "alg": "EdDSA" }), &usual), UNKNOWN),
        ("just expired", ours.token(&json!({ "exp": now() - 30 })), ""),
        ("expired", ours.token(&json!({ "exp": now() - 90 })), UNKNOWN),
        ("not yet valid", ours.token(&json!({ "nbf": now() + 120 })), UNKNOWN),
        ("wrong audience", ours.token(&json!({ "aud": "elsewhere" })), UNKNOWN),
        ("no audience", ours.token(&json!({ "aud": null })), UNKNOWN),
        ("no end", ours.token(&json!({ "exp": null })), UNKNOWN),
        ("no subject", ours.token(&json!({ "sub": null })), UNKNOWN),
        ("unknown issuer", ours.token(&json!({ "iss": "https://evil.example" })), UNKNOWN),
        ("another's key", theirs.token(&json!({})), UNKNOWN),
        ("unknown kid", Signer::new("k9").token(&json!({})), UNKNOWN),
        ("alg none", unsigned(json!({ "alg": "none" })), UNKNOWN),
        ("alg none in capitals", unsigned(json!({ "alg": "None", "kid": "k1" })), UNKNOWN),
        ("key confusion", ours.signs(&json!({ "alg": "HS256", "kid": "k1" }), &usual), UNKNOWN),
        ("another key type", ours.signs(&json!({ "alg": "RS256", "kid": "k1" }), &usual), UNKNOWN),
        (
            "its own key in the header",
            theirs.signs(
                &json!({ "alg": "EdDSA", "jwk": { "kty": "OKP", "crv": "Ed25519", "x": public } }),
                &usual,
            ),
            UNKNOWN,
        ),
        ("crit", ours.signs(&json!({ "alg": "EdDSA", "kid": "k1", "crit": ["b64"] }), &usual), UNKNOWN),
        ("another subject, without a right", ours.token(&json!({ "sub": "pay2" })), "CONSUMER_NOT_ALLOWED"),
        ("a subject like a principal", ours.token(&json!({ "sub": "token:one" })), "CONSUMER_NOT_ALLOWED"),
        ("malformed", "a.b.c".into(), UNKNOWN),
        ("two parts", ours.token(&json!({})).rsplit_once('.').unwrap().0.to_owned(), UNKNOWN),
    ];
    for (what, token, expected) in rows {
        // Twice: what was remembered of the first time must not let anybody in.
        for _ in 0..2 {
            let said = why(server.client.claim(by(token, claim("c", &fresh()))).await);
            assert_eq!(said, *expected, "{what}");
        }
    }
    assert!(
        timeout(Duration::from_secs(5), key_refresh.requested(0)).await.is_ok(),
        "an unknown kid asks for its key"
    );
    let principal =
        why(server.client.claim(by(&ours.token(&json!({ "sub": "a\u{7}" })), claim("c", "1"))).await);
    assert_eq!(principal, UNKNOWN);
    server.stop().await;
}

/// What was verified is remembered for as long as it is valid, and no longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_was_remembered_ends_when_it_ends() {
    let signer = Signer::new("k1");
    // With the leeway each of the two is valid for two seconds more.
    let of_file = NewToken::until("one", Some(now() - 58)).unwrap();
    let file = Tokens::read(&format!("[tokens]\n{}\n", of_file.line)).unwrap();
    let guard = Guard::new(Trust { tokens: Some(file.into()), ..trust(&signer.keys()) });
    let setup = Setup { guard: guard.clone(), ..Setup::default() };
    let mut server = TestServer::start_with(Kind::Sqlite, setup).await;
    let ends = signer.token(&json!({ "exp": now() - 58 }));
    // On separate connections: each remembers its last token.
    let channel = raw::channel(&server).await;
    let mut other = LedgerServiceClient::new(channel);
    assert_eq!(why(server.client.claim(by(&ends, claim("c", "1"))).await), "");
    assert_eq!(why(other.claim(by(&of_file.token, claim("c", "1"))).await), "");
    sleep(Duration::from_millis(3_100)).await;
    assert_eq!(why(server.client.claim(by(&ends, claim("c", "2"))).await), UNKNOWN);
    let refused = other.claim(by(&of_file.token, claim("c", "2"))).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, UNKNOWN);
    assert!(refused.message().contains("the token has expired"), "{refused:?}");
    drop(other);
    let stays = signer.token(&json!({}));
    assert_eq!(why(server.client.claim(by(&stays, claim("c", "3"))).await), "");
    // Its key is withdrawn, and its right is taken.
    guard.replace(trust(&Signer::new("k2").keys()));
    assert_eq!(why(server.client.claim(by(&stays, claim("c", "4"))).await), UNKNOWN);
    let without = Trust { rights: Rights::default().into(), ..trust(&signer.keys()) };
    guard.replace(without);
    assert_eq!(why(server.client.claim(by(&stays, claim("c", "5"))).await), "CONSUMER_NOT_ALLOWED");
    server.stop().await;
}

/// An issuer that publishes its keys and its discovery document by HTTPS, to who presents its bearer token.
struct Published {
    issuer: String,
    url: String,
    jwks: Arc<std::sync::Mutex<String>>,
    fetched: Arc<AtomicUsize>,
}

impl Published {
    async fn start(pki: &Pki, jwks: String) -> Published {
        let (certificate, key) = pki.signed("localhost");
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let url = format!("{issuer}/keys");
        let document = json!({ "issuer": issuer, "jwks_uri": url, "claims_supported": ["sub"] }).to_string();
        let (jwks, fetched) = (Arc::new(std::sync::Mutex::new(jwks)), Arc::new(AtomicUsize::new(0)));
        let (text, count) = (Arc::clone(&jwks), Arc::clone(&fetched));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut asked = vec![0; 4_096];
                let read = stream.read(&mut asked).await.unwrap_or_default();
                let asked = String::from_utf8_lossy(&asked[..read]);
                let (status, body) = match asked.contains("Bearer fetch-me\r\n") {
                    true if asked.starts_with("GET /.well-known/openid-configuration ") => {
                        ("200 OK", document.clone())
                    }
                    true => ("200 OK", text.lock().unwrap().clone()),
                    false => ("401 Unauthorized", String::new()),
                };
                count.fetch_add(1, Ordering::SeqCst);
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _written = stream.write_all(answer.as_bytes()).await;
                let _closed = stream.shutdown().await;
            }
        });
        Published { issuer, url, jwks, fetched }
    }
}

/// Claims until the answer is this one.
async fn until(server: &Server, token: &str, expected: &str, within: Duration) {
    let (mut client, until) =
        (LedgerServiceClient::new(server.channel().await.unwrap()), Instant::now() + within);
    loop {
        let said = why(client.claim(by(token, claim("c", &fresh()))).await);
        if said == expected {
            return;
        }
        assert!(Instant::now() < until, "it stays {said:?}, not {expected:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Keys lie in a file for one issuer, are published by another, and found by the document of a third: all are rotated under a running
/// server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_rotated() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let pki = Pki::new();
    let (first, second) = (Signer::new("k1"), Signer::new("k2"));
    let published = Published::start(&pki, first.jwks()).await;
    let documented = Published::start(&pki, first.jwks()).await;
    std::fs::write(path("keys.json"), first.jwks()).unwrap();
    std::fs::write(path("bearer"), "fetch-me\n").unwrap();
    std::fs::write(
        path("rights.toml"),
        "[[rights]]\nprincipal = 'jwt:*'\nconsumers = ['c']\nmay = ['claim', 'settle']\n",
    )
    .unwrap();
    std::fs::write(
        path("ledger.toml"),
        format!(
            "rights_file = '{}'\njwks_refresh = '10s'\njwks_keep = '77m'\n\
             [issuers.filed]\nissuer = 'https://filed.example'\naudiences = ['ledger']\njwks_file = '{}'\n\
             [issuers.corp]\nissuer = '{ISSUER}'\naudiences = ['ledger']\njwks_url = '{}'\njwks_ca_file = '{}'\n\
             jwks_token_file = '{bearer}'\n\
             [issuers.found]\nissuer = '{}'\naudiences = ['ledger']\njwks_ca_file = '{}'\njwks_token_file = '{bearer}'\n",
            path("rights.toml"),
            path("keys.json"),
            published.url,
            pki.path("ca.pem"),
            documented.issuer,
            pki.path("ca.pem"),
            bearer = path("bearer"),
        ),
    )
    .unwrap();
    let (config, log) = (path("ledger.toml"), std::fs::File::create(path("log")).unwrap());
    let database = format!("sqlite://{}", path("ledger.db"));
    let settings = ["--config", &config, "--observe-listen", "off"];
    let server = Server::with(std::process::Command::new(BINARY), &database, &settings, log.into()).await;
    let filed = |signer: &Signer| signer.token(&json!({ "iss": "https://filed.example", "sub": "a" }));
    let corp = |signer: &Signer| signer.token(&json!({ "sub": "b" }));
    until(&server, &filed(&first), "", Duration::from_secs(5)).await;
    until(&server, &corp(&first), "", Duration::from_secs(5)).await;
    let found = |signer: &Signer| signer.token(&json!({ "iss": documented.issuer, "sub": "c" }));
    until(&server, &found(&first), "", Duration::from_secs(5)).await;
    // The file has another key: the old one is refused within 5 s, the new one is known.
    std::fs::write(path("keys.json"), second.jwks()).unwrap();
    until(&server, &filed(&first), UNKNOWN, Duration::from_secs(5)).await;
    until(&server, &filed(&second), "", Duration::from_secs(5)).await;
    // The issuer publishes another one: a token that names it has it fetched, once; what is withdrawn goes with it.
    *published.jwks.lock().unwrap() = second.jwks();
    let before = published.fetched.load(Ordering::SeqCst);
    until(&server, &corp(&second), "", Duration::from_secs(9)).await;
    until(&server, &corp(&first), UNKNOWN, Duration::from_secs(1)).await;
    assert!(published.fetched.load(Ordering::SeqCst) <= before + 2, "unknown keys cause few fetches");
    *documented.jwks.lock().unwrap() = second.jwks();
    until(&server, &found(&second), "", Duration::from_secs(9)).await;
    until(&server, &found(&first), UNKNOWN, Duration::from_secs(1)).await;
    // The next fetch brings no keys: the keys of the last one stay in force.
    let logged = std::fs::read_to_string(path("log")).unwrap().len();
    *documented.jwks.lock().unwrap() = "no keys".to_owned();
    let timer = Timer::start();
    let kept = loop {
        let log = std::fs::read_to_string(path("log")).unwrap();
        let mut lines = log[logged..].split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let failed = lines.find(|line| line.contains("kept_seconds=") && line.contains("found"));
        if let Some((_, seconds)) = failed.and_then(|line| line.split_once("kept_seconds=")) {
            let digits: String = seconds.chars().take_while(char::is_ascii_digit).collect();
            break digits.parse::<u64>().unwrap();
        }
        timer.within(Duration::from_secs(60), "a fetch without keys");
        sleep(Duration::from_millis(50)).await;
    };
    assert!((4_500..=4_620).contains(&kept), "{kept} seconds of 77 minutes");
    until(&server, &found(&second), "", Duration::from_secs(5)).await;
    let log = std::fs::read_to_string(path("log")).unwrap();
    assert!(!log.contains("fetch-me") && !log.contains("eyJ"), "{log}");
    drop(server);
}

/// The scheme and the place of a token are the same for all kinds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_token_is_presented_as_any_other() {
    let signer = Signer::new("k1");
    let setup = Setup { guard: Guard::new(trust(&signer.keys())), ..Setup::default() };
    let mut server = TestServer::start_with(Kind::Sqlite, setup).await;
    let token = signer.token(&json!({}));
    for (what, values, expected) in [
        ("once", vec![format!("Bearer {token}")], ""),
        ("twice", vec![format!("Bearer {token}"), format!("Bearer {token}")], UNKNOWN),
        ("without a scheme", vec![token.clone()], UNKNOWN),
    ] {
        let mut request = Request::new(claim("c", &fresh()));
        for value in &values {
            request = with(request, "authorization", value);
        }
        assert_eq!(why(server.client.claim(request).await), expected, "{what}");
    }
    server.stop().await;
}
