//! Fetches from test servers.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::identity::jwt::tests::signer::Signer;

/// A certificate authority, and the folder with its certificate.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { issuer, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file with this text.
    fn with(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.file(name), text).unwrap();
        self.file(name)
    }

    /// The TLS configuration of a server with a certificate for this name.
    fn server(&self, name: &str) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap()
    }
}

/// A server that answers each connection with the same bytes, and records the requests.
struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Without an answer it never sends anything.
    async fn new(tls: ServerConfig, answer: Option<Vec<u8>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, asked) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let (tls, all) = (TlsAcceptor::from(Arc::new(tls)), Arc::clone(&asked));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A client that does not trust it disconnects.
                let Ok(mut stream) = tls.accept(stream).await else { continue };
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                all.lock().unwrap().push(String::from_utf8(head).unwrap());
                match &answer {
                    Some(answer) => drop(answered(&mut stream, answer).await),
                    None => pending().await,
                }
            }
        });
        Server { address, asked, task }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// A client that has read enough disconnects: that is not an error of the server.
async fn answered(stream: &mut (impl tokio::io::AsyncWrite + Unpin), answer: &[u8]) -> io::Result<()> {
    stream.write_all(answer).await?;
    stream.shutdown().await
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn ok(more: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{more}\r\n{body}").into_bytes()
}

fn source_of(server: &Server, authority: &Authority, bearer: Option<PathBuf>) -> Source {
    let url = format!("https://{}/keys?of=all", server.address);
    let mut source = Source::new(&url, Some(authority.file("ca.pem")), bearer).unwrap();
    // Tests of responses must not fail on a slow machine.
    source.within = Duration::from_mins(1);
    source
}

#[tokio::test]
async fn fetch_bad_response_reports_reason() {
    let authority = Authority::new();
    let jwks = Signer::new().jwks();
    let length = jwks.len();
    let (first, second) = jwks.split_at(9);
    let chunks = format!("9\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n", second.len());
    let status = |status: &str| format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").into_bytes();
    let huge = "x".repeat(JWKS_MAX + 1);
    let lines = |count: usize| "x: y\r\n".repeat(count);
    for (what, answer, result) in [
        ("a length", ok(&format!("content-length: {length}\r\n"), &jwks), Ok(3)),
        ("chunks", ok("transfer-encoding: chunked\r\n", &chunks), Ok(3)),
        ("until the end", ok("", &jwks), Ok(3)),
        ("lines", ok(&lines(90), &jwks), Ok(3)),
        ("more behind", ok(&format!("content-length: {length}\r\n"), &format!("{jwks}x")), Ok(3)),
        ("500", status("500 Internal Server Error"), Err("answers 500 Internal Server Error")),
        ("204", status("204 No Content"), Err("answers 204 No Content")),
        ("401", status("401 Unauthorized"), Err("answers 401 Unauthorized")),
        (
            "redirect",
            b"HTTP/1.1 302 Found\r\nlocation: /keys\r\ncontent-length: 0\r\n\r\n".to_vec(),
            Err("answers 302 Found, and redirects are not followed"),
        ),
        ("huge", ok(&format!("content-length: {}\r\n", huge.len()), &huge), Err("more than 262144 bytes")),
        ("huge, until the end", ok("", &huge), Err("more than 262144 bytes")),
        ("huge length", ok("content-length: 99999999999\r\n", "x"), Err("more than 262144 bytes")),
        ("huge head", ok(&format!("x: {}\r\n", "y".repeat(20_000)), &jwks), Err("no answer: ")),
        ("too many lines", ok(&lines(101), &jwks), Err("no answer: ")),
        ("cut", ok(&format!("content-length: {length}\r\n"), &jwks[..9]), Err("no whole answer: ")),
        ("cut head", b"HTTP/1.1 200 OK\r\n".to_vec(), Err("no answer: ")),
        ("nothing", Vec::new(), Err("no answer: ")),
        ("another protocol", b"SSH-2.0-OpenSSH\r\n\r\n".to_vec(), Err("no answer: ")),
        ("a page", ok("", "<html>"), Err("it is not a JWKS")),
        ("no keys", ok("", r#"{"keys":[]}"#), Err("the JWKS has no keys")),
    ] {
        let server = Server::new(authority.server("127.0.0.1"), Some(answer)).await;
        let url = format!("https://{}/keys?of=all", server.address);
        match (source_of(&server, &authority, None).keys().await, result) {
            (Ok(keys), Ok(count)) => assert_eq!(keys.count(), count, "{what}"),
            (Err(error), Err(part)) => {
                assert!(error.starts_with(&format!("{url}: ")) && error.contains(part), "{what}: {error}");
            }
            (got, wanted) => panic!("{what}: {got:?}, not {wanted:?}"),
        }
        let asked = server.asked();
        assert_eq!(asked.len(), 1, "{what}: {asked:?}");
        let begin = format!("GET /keys?of=all HTTP/1.1\r\nhost: {}\r\n", server.address);
        assert!(asked[0].starts_with(&begin) && !asked[0].contains("authorization"), "{what}: {asked:?}");
    }
}

#[tokio::test]
async fn fetch_unverified_server_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    for (what, tls) in [
        ("of another authority", other.server("127.0.0.1")),
        ("for another address", authority.server("127.0.0.2")),
        ("for a name", authority.server("localhost")),
    ] {
        let server = Server::new(tls, Some(ok("", &Signer::new().jwks()))).await;
        let bearer = authority.with("bearer", "secret-1");
        let error = source_of(&server, &authority, Some(bearer)).keys().await.unwrap_err();
        assert!(error.contains(": no TLS: invalid peer certificate"), "{what}: {error}");
        assert!(server.asked().is_empty(), "{what}");
    }
    let server = Server::new(authority.server("127.0.0.1"), None).await;
    let of_system = Source::new(&format!("https://{}/", server.address), None, None).unwrap();
    let error = of_system.keys().await.unwrap_err();
    assert!(error.contains("no TLS: ") || error.contains("the system trusts no authority"), "{error}");
    let unreachable = Source::new("https://127.0.0.1:1/", Some(authority.file("ca.pem")), None).unwrap();
    let error = unreachable.keys().await.unwrap_err();
    assert!(error.contains(": no connection: "), "{error}");
}

#[tokio::test]
async fn fetch_slow_server_times_out() {
    let authority = Authority::new();
    let server = Server::new(authority.server("127.0.0.1"), None).await;
    let mut source = source_of(&server, &authority, None);
    source.within = Duration::from_millis(300);
    let error = source.keys().await.unwrap_err();
    assert!(error.ends_with(": no whole answer within 300ms"), "{error}");
    // A server that accepts connections, and does not start TLS.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let mut source = Source::new(&url, Some(authority.file("ca.pem")), None).unwrap();
    assert_eq!(source.within, Duration::from_secs(5));
    source.within = Duration::from_millis(300);
    let error = source.keys().await.unwrap_err();
    assert!(error.ends_with(": no whole answer within 300ms"), "{error}");
}

#[tokio::test]
async fn fetch_reads_bearer_token_each_time_and_errors_hide_it() {
    let authority = Authority::new();
    let server = Server::new(authority.server("127.0.0.1"), Some(ok("", "no keys of secret"))).await;
    let source = source_of(&server, &authority, Some(authority.file("bearer")));
    for (text, result) in [
        ("secret-1", Ok("secret-1")),
        (" secret-2\r\n", Ok("secret-2")),
        ("", Err("it is empty")),
        (" \n", Err("it is empty")),
        ("secret 3", Err("it is not one word of ASCII")),
        ("secret\nx: y", Err("it is not one word of ASCII")),
        ("secret-é", Err("it is not one word of ASCII")),
        (&*"secret".repeat(4_000), Err("more than 16384 bytes")),
    ] {
        authority.with("bearer", text);
        let (before, error) = (server.asked().len(), source.keys().await.unwrap_err());
        assert!(!error.contains("secret"), "{error}");
        let asked = server.asked();
        match result {
            Ok(token) => {
                let header = format!("\r\nauthorization: Bearer {token}\r\n");
                assert!(asked[before..].iter().all(|head| head.contains(&header)), "{asked:?}");
                assert_eq!(asked.len(), before + 1, "{text}");
            }
            Err(why) => {
                assert!(error.ends_with(why) && error.contains("/bearer: "), "{error}");
                assert_eq!(asked.len(), before, "{text}");
            }
        }
    }
    fs::remove_file(authority.file("bearer")).unwrap();
    let error = source.keys().await.unwrap_err();
    assert!(error.contains("No such file"), "{error}");
}

#[test]
fn new_url_without_https_is_refused() {
    for (url, good) in [
        ("https://a.example/keys", Some(("a.example", 443))),
        ("https://a.example", Some(("a.example", 443))),
        ("HTTPS://a.example:8443/@me/keys?a=b", Some(("a.example", 8_443))),
        ("https://127.0.0.1:1/", Some(("127.0.0.1", 1))),
        ("https://[::1]:8443/keys", Some(("::1", 8_443))),
        ("https://[::1]/keys", Some(("::1", 443))),
        ("http://a.example/keys", None),
        ("http://127.0.0.1/keys", None),
        ("file:///keys", None),
        ("/keys", None),
        ("a.example", None),
        ("a.example:443", None),
        ("https:///keys", None),
        ("https://", None),
        ("https://a.example:x/", None),
        ("https://a.example:/", None),
        ("https://a.example:99999/", None),
        ("https://-/", None),
        ("https://a b/", None),
        ("", None),
    ] {
        let source = Source::new(url, None, None);
        let found = source.as_ref().ok().map(|source| (source.place.host.as_str(), source.place.port));
        assert_eq!(found, good, "{url}: {source:?}");
    }
    for url in ["https://me:secret@a.example/", "https://secret@a.example/", "http://me:secret@a.example/"] {
        let error = Source::new(url, None, None).unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn new_unreadable_authorities_fail_immediately() {
    let authority = Authority::new();
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (file, why) in [
        (authority.file("none.pem"), "No such file"),
        (authority.with("empty.pem", ""), "no certificate in PEM"),
        (authority.with("text.pem", "text"), "no certificate in PEM"),
        (authority.with("broken.pem", broken), "invalid peer certificate"),
        (authority.with("large.pem", &"x".repeat(1_048_577)), "more than 1048576 bytes"),
    ] {
        let error = Source::new("https://a.example/", Some(file), None).unwrap_err();
        assert!(
            error.starts_with("https://a.example/: the authorities in ") && error.contains(why),
            "{error}"
        );
    }
}

/// A server whose discovery document names the keys of a URL, and that has the keys.
async fn issuer_with(
    authority: &Authority,
    keys_at: impl FnOnce(SocketAddr) -> String,
    bad: bool,
) -> (Server, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let issuer = format!("https://{address}/realm");
    let named = if bad { format!("{issuer}/") } else { issuer.clone() };
    let document = format!("{{\"issuer\": \"{named}\", \"jwks_uri\": \"{}\"}}", keys_at(address));
    let (tls, all) = (TlsAcceptor::from(Arc::new(authority.server("127.0.0.1"))), Arc::clone(&asked));
    let task = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = tls.accept(stream).await else { continue };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let at_document = head.starts_with("GET /realm/.well-known/openid-configuration HTTP/1.1\r\n");
            all.lock().unwrap().push(head);
            let body = if at_document { document.clone() } else { Signer::new().jwks() };
            drop(answered(&mut stream, &ok("", &body)).await);
        }
    });
    (Server { address, asked, task }, issuer)
}

fn discovered(issuer: &str, authority: &Authority, bearer: Option<PathBuf>) -> Source {
    let mut source = Source::discovered(issuer, Some(authority.file("ca.pem")), bearer).unwrap();
    source.within = Duration::from_mins(1);
    source
}

#[tokio::test]
async fn keys_are_found_by_the_discovery_document_of_each_fetch() {
    let authority = Authority::new();
    let (server, issuer) = issuer_with(&authority, |address| format!("https://{address}/keys"), false).await;
    let source = discovered(&issuer, &authority, Some(authority.with("bearer", "secret-1")));
    for fetches in [1, 2] {
        assert_eq!(source.keys().await.unwrap().count(), 3);
        let asked = server.asked();
        assert_eq!(asked.len(), 2 * fetches, "the document, and the keys: {asked:?}");
        assert!(
            asked.iter().all(|head| head.contains("\r\nauthorization: Bearer secret-1\r\n")),
            "{asked:?}"
        );
    }
    let (_server, issuer) = issuer_with(&authority, |address| format!("https://{address}/keys"), true).await;
    let error = discovered(&issuer, &authority, None).keys().await.unwrap_err();
    assert!(
        error.contains("/realm/.well-known/openid-configuration: it is the discovery document of another"),
        "{error}"
    );
    let (_server, issuer) = issuer_with(&authority, |address| format!("http://{address}/keys"), false).await;
    let error = discovered(&issuer, &authority, None).keys().await.unwrap_err();
    assert!(error.contains("the URL of a JWKS must be https://"), "{error}");
}

/// A document may name any server: it gets no token that is meant for the issuer.
#[tokio::test]
async fn another_server_than_the_issuers_gets_no_bearer_token() {
    let authority = Authority::new();
    let keys = Server::new(authority.server("127.0.0.1"), Some(ok("", &Signer::new().jwks()))).await;
    let url = format!("https://{}/keys", keys.address);
    let (server, issuer) = issuer_with(&authority, |_| url, false).await;
    let source = discovered(&issuer, &authority, Some(authority.with("bearer", "secret-1")));
    assert_eq!(source.keys().await.unwrap().count(), 3);
    assert!(server.asked()[0].contains("secret-1"), "the issuer itself gets it");
    let asked = keys.asked();
    assert!(asked.len() == 1 && !asked[0].contains("authorization"), "{asked:?}");
}

#[tokio::test]
async fn fetch_time_limit_covers_the_document_and_the_keys() {
    let authority = Authority::new();
    // On a slow machine the document alone may take longer than the first limits.
    for within in [300, 3_000, 30_000].map(Duration::from_millis) {
        let keys = Server::new(authority.server("127.0.0.1"), None).await;
        let url = format!("https://{}/keys", keys.address);
        let (_server, issuer) = issuer_with(&authority, |_| url, false).await;
        let mut source = discovered(&issuer, &authority, None);
        source.within = within;
        let fetched = timeout(Duration::from_mins(1), source.keys()).await;
        let error = fetched.expect("the fetch ends").unwrap_err();
        assert!(error.ends_with(&format!(": no whole answer within {within:?}")), "{error}");
        if !keys.asked().is_empty() {
            return;
        }
    }
    panic!("the server of the keys was not asked");
}
