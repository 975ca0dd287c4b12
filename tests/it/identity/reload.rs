//! Files are rotated under a running server: whose credential stays valid sees nothing of it, and what was taken out is
//! refused, also on connections that are open.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tokio::time::sleep;
use tonic::transport::Channel;

use super::tls::way;
use super::{People, by, fresh, why};
use crate::harness::details::claim;
use crate::harness::pki::Pki;
use crate::harness::postgres::free_port;
use crate::harness::signals::signal;
use crate::process::BINARY;

const UNKNOWN: &str = "UNAUTHENTICATED";
const DENIED: &str = "CONSUMER_NOT_ALLOWED";
/// What a file took out is refused within this time; the promise is 5 s.
const WITHIN: Duration = Duration::from_secs(5);

/// A server with all files, in a folder as a cluster mounts secrets: the files are links into a folder that is itself a
/// link, which is replaced as a whole.
pub(crate) struct Mounted {
    folder: tempfile::TempDir,
    versions: u32,
    pub(crate) child: Child,
    pub(crate) port: u16,
    pub(crate) observed: String,
    pub(crate) pki: Pki,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _ended = self.child.wait();
    }
}

const FILES: [&str; 6] = ["tokens.toml", "rights.toml", "cert.pem", "key.pem", "ca.pem", "crl.pem"];

impl Mounted {
    pub(crate) async fn start(people: &People) -> Mounted {
        let folder = tempfile::tempdir().unwrap();
        let (port, observed) = (free_port(), format!("127.0.0.1:{}", free_port()));
        let pki = Pki::new();
        for file in FILES {
            std::os::unix::fs::symlink(Path::new("now").join(file), folder.path().join(file)).unwrap();
        }
        let child = Command::new("true").spawn().unwrap();
        let mut mounted = Mounted { folder, versions: 0, child, port, observed, pki };
        let (certificate, key) = mounted.pki.signed("localhost");
        mounted.swap(&[
            ("tokens.toml", &people.tokens_file),
            ("rights.toml", &people.rights_file),
            ("cert.pem", &certificate),
            ("key.pem", &key),
            ("ca.pem", &mounted.pki.issuer.pem()),
            ("crl.pem", &mounted.pki.revoked(&[99])),
        ]);
        let path = |name: &str| mounted.path(name);
        let mut command = Command::new(BINARY);
        command.args([
            "serve",
            "--listen",
            &format!("127.0.0.1:{port}"),
            "--observe-listen",
            &mounted.observed,
        ]);
        command.args(["--database-url", &format!("sqlite://{}", path("ledger.db")), "--drain-wait", "0s"]);
        for (flag, file) in [
            ("--tokens-file", "tokens.toml"),
            ("--rights-file", "rights.toml"),
            ("--listen-tls-cert", "cert.pem"),
            ("--listen-tls-key", "key.pem"),
            ("--listen-tls-client-ca", "ca.pem"),
            ("--listen-tls-client-crl", "crl.pem"),
        ] {
            command.args([flag, &path(file)]);
        }
        let file = |name: &str| Stdio::from(fs::File::create(path(name)).unwrap());
        let (out, log) = (file("out"), file("log"));
        mounted.child = command.stdout(out).stderr(log).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while way(&mounted.pki, port, None).connect().await.is_err() {
            assert!(mounted.child.try_wait().unwrap().is_none(), "the server ended: {}", mounted.log());
            assert!(Instant::now() < until, "the server does not serve: {}", mounted.log());
            sleep(Duration::from_millis(20)).await;
        }
        mounted
    }

    /// A new version of the folder, with these files changed, takes the place of the old one.
    pub(crate) fn swap(&mut self, changes: &[(&str, &str)]) {
        let (old, now) =
            (self.folder.path().join(format!("v{}", self.versions)), self.folder.path().join("now"));
        self.versions += 1;
        let new = self.folder.path().join(format!("v{}", self.versions));
        fs::create_dir(&new).unwrap();
        for file in FILES {
            match changes.iter().find(|(name, _)| *name == file) {
                Some((_, text)) => {
                    fs::write(new.join(file), text).unwrap();
                    fs::set_permissions(new.join(file), fs::Permissions::from_mode(0o644)).unwrap();
                }
                None => drop(fs::copy(old.join(file), new.join(file)).unwrap()),
            }
        }
        let next = self.folder.path().join("next");
        std::os::unix::fs::symlink(format!("v{}", self.versions), &next).unwrap();
        fs::rename(next, now).unwrap();
    }

    /// A file of the folder: one that is mounted, or `out` and `log`.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub(crate) fn log(&self) -> String {
        crate::harness::log_file::settled(self.path("log").as_ref())
    }

    async fn says(&self, words: &str) {
        let until = Instant::now() + WITHIN;
        while !self.log().contains(words) {
            assert!(Instant::now() < until, "{words}: {}", self.log());
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Claims until the answer is this one.
async fn until(channel: &Channel, token: &str, expected: &str) {
    let (mut client, until) = (LedgerServiceClient::new(channel.clone()), Instant::now() + WITHIN);
    loop {
        let said = why(client.claim(by(token, claim("c", &fresh()))).await);
        if said == expected {
            return;
        }
        assert!(Instant::now() < until, "it stays {said:?}, not {expected:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Claims all the time; any refusal is a failure.
fn steady(
    channel: Channel,
    token: String,
) -> (tokio::task::JoinHandle<u64>, tokio::sync::oneshot::Sender<()>) {
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let claiming = tokio::spawn(async move {
        let (mut client, mut done) = (LedgerServiceClient::new(channel), 0);
        while stopped.try_recv().is_err_and(|end| end == tokio::sync::oneshot::error::TryRecvError::Empty) {
            let said = why(client.claim(by(&token, claim("c", &fresh()))).await);
            assert_eq!(said, "", "after {done}");
            done += 1;
        }
        done
    });
    (claiming, stop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_rotated_under_load() {
    let people = People::new(&[
        ("stays", &[("c", "claim")]),
        ("goes", &[("c", "claim")]),
        ("next", &[("c", "claim")]),
    ]);
    let line_of =
        |name: &str| people.tokens_file.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    let mut mounted = Mounted::start(&people).await;
    let port = mounted.port;
    let channel = way(&mounted.pki, port, None).connect().await.unwrap();
    let (claiming, stop) = steady(channel.clone(), people.token("stays").to_owned());
    let (stays, goes) = (people.token("stays"), people.token("goes"));
    let certified = mounted.pki.issued(&["worker.shop"], 7, |_| {});
    let open = way(&mounted.pki, port, Some(&certified)).connect().await.unwrap();
    until(&channel, goes, "").await;
    // A token is taken out, and comes back.
    mounted.swap(&[("tokens.toml", &format!("[tokens]\n{}\n{}\n", line_of("stays"), line_of("next")))]);
    until(&channel, goes, UNKNOWN).await;
    mounted.swap(&[("tokens.toml", &people.tokens_file)]);
    until(&channel, goes, "").await;
    // A right is taken out.
    let fewer = People::new(&[("stays", &[("c", "claim")])]).rights_file;
    mounted.swap(&[("rights.toml", &fewer)]);
    until(&channel, goes, DENIED).await;
    // A certificate names a principal, until it is revoked.
    let shop =
        format!("{fewer}[[rights]]\nprincipal = 'dns:worker.shop'\nconsumers = ['c']\nmay = ['claim']\n");
    mounted.swap(&[("rights.toml", &shop)]);
    let certified_claim = async |expected: &str| {
        let (mut client, until) = (LedgerServiceClient::new(open.clone()), Instant::now() + WITHIN);
        loop {
            let said = why(client.claim(claim("c", &fresh())).await);
            if said == expected {
                return;
            }
            assert!(Instant::now() < until, "it stays {said:?}, not {expected:?}");
            sleep(Duration::from_millis(20)).await;
        }
    };
    certified_claim("").await;
    let revoked = mounted.pki.revoked(&[7]);
    mounted.swap(&[("crl.pem", &revoked)]);
    certified_claim(UNKNOWN).await;
    // The server's own certificate is renewed, by another authority: who connects now sees it, who is there stays.
    let renewed = Pki::new();
    let (certificate, key) = renewed.signed("localhost");
    mounted.swap(&[("cert.pem", &certificate), ("key.pem", &key)]);
    let until_new = Instant::now() + WITHIN;
    while way(&renewed, port, None).connect().await.is_err() {
        assert!(Instant::now() < until_new, "the old certificate is shown still: {}", mounted.log());
        sleep(Duration::from_millis(50)).await;
    }
    assert!(way(&mounted.pki, port, None).connect().await.is_err(), "the old one is not shown any more");
    // Something else is changed beside what is broken.
    mounted.swap(&[("key.pem", "no key"), ("crl.pem", &mounted.pki.revoked(&[]))]);
    certified_claim("").await;
    mounted.swap(&[("key.pem", &key)]);
    // What is broken leaves in force what was read before.
    for (file, text, says) in [
        ("tokens.toml", "[tokens", "tokens_file: "),
        ("rights.toml", "[[rights]]\n", "rights_file: "),
        ("key.pem", "no key", "has no private key"),
        ("crl.pem", "no list", "has no revocation list"),
    ] {
        // Each of them beside the others that are broken: none keeps another from being read.
        mounted.swap(&[(file, text)]);
        mounted.says(says).await;
        until(&channel, stays, "").await;
        assert!(way(&renewed, port, None).connect().await.is_ok(), "{file}");
    }
    drop(stop);
    assert!(claiming.await.unwrap() > 10, "claims went on all the time");
    let log = mounted.log();
    assert!(!log.contains("ilt_") && !log.contains("PRIVATE"), "{log}");
}

/// Nobody need wait for a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sighup_has_files_read_at_once() {
    let people = People::new(&[("one", &[("c", "claim")])]);
    let mut mounted = Mounted::start(&people).await;
    let channel = way(&mounted.pki, mounted.port, None).connect().await.unwrap();
    until(&channel, people.token("one"), "").await;
    mounted.swap(&[("tokens.toml", "[tokens]\n")]);
    signal("HUP", &[mounted.child.id()]);
    until(&channel, people.token("one"), UNKNOWN).await;
    mounted.says("SIGHUP: the files").await;
}
