//! Nothing that is secret appears in what a run writes.

use std::path::Path;
use std::process::{Command, Stdio};

use tonic_health::pb::health_check_response::ServingStatus;

use super::{cluster, end_sessions, grant, mount, tells};
use crate::harness::details::{acquired, claim, refusal};
use crate::harness::postgres::free_port;
use crate::observe::asked;
use crate::process::{BINARY, Server};

/// What every secret of this test holds, in upper or lower case.
const MARK: &str = "zq7mark";

/// The settings of one way to tell who connects; they stand in the environment, where no process is seen to have them.
struct Way {
    name: &'static str,
    settings: Vec<(&'static str, String)>,
    /// The file in which the password is, the text around it, and the password that is right.
    rotated: Option<(&'static str, String, &'static str)>,
}

fn command(way: &Way, arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    for (setting, value) in &way.settings {
        command.env(format!("IDEMPOTENCY_LEDGER_{setting}"), value);
    }
    command.args(arguments);
    command
}

/// What a command writes, and whether it does well.
fn written(way: &Way, arguments: &[&str]) -> (String, bool) {
    let output = command(way, arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout) + &text(&output.stderr), output.status.success())
}

fn no_mark(name: &str, what: &str, text: &str) {
    assert!(!text.is_empty(), "{name}: {what} is empty");
    let lower = text.to_lowercase();
    let found = lower.lines().find(|line| line.contains(MARK));
    assert_eq!(found, None, "{name}: {what} tells a secret");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_in_what_a_run_writes() {
    let mut cluster = cluster("zq7mark_user", "zq7mark/right").await;
    cluster.execute("postgres", "CREATE ROLE app LOGIN PASSWORD 'zq7mark/right'").await;
    grant(&cluster, "app");
    let folder = tempfile::tempdir().unwrap();
    let secrets = folder.path().join("secrets");
    std::fs::create_dir(&secrets).unwrap();
    let right = "zq7mark%2Fright";
    let ways = [
        // A name that somebody typed wrongly may have a secret behind it.
        Way {
            name: "a URL",
            settings: vec![(
                "DATABASE_URL",
                format!("{}&passwrod=zq7mark", cluster.url_of(&format!("app:{right}@"))),
            )],
            rotated: None,
        },
        Way {
            name: "a URL in a file",
            settings: vec![(
                "DATABASE_URL_FILE",
                mount(&secrets, "url", &cluster.url_of(&format!("zq7mark_user:{right}@"))),
            )],
            rotated: Some(("url", cluster.url_of("zq7mark_user:{}@"), right)),
        },
        Way {
            name: "a user and a password in files",
            settings: vec![
                ("DATABASE_URL", cluster.url_of("")),
                ("DATABASE_USER_FILE", mount(&secrets, "user", "zq7mark_user\n")),
                ("DATABASE_PASSWORD_FILE", mount(&secrets, "password", "zq7mark/right\n")),
            ],
            rotated: Some(("password", "{}\n".into(), "zq7mark/right")),
        },
    ];
    let mut run = Vec::new();
    for way in &ways {
        for arguments in [
            &["serve", "--help"][..],
            &["serve", "--check-config"],
            &["serve", "--check-config", "--log-format", "json"],
            &["serve", "--check-config", "--log", "trace"],
            &["migrate", "--help"],
        ] {
            let (text, well) = written(way, arguments);
            assert!(well, "{}: {text}", way.name);
            no_mark(way.name, &arguments.join(" "), &text);
        }
        let (text, well) = written(way, &["serve", "--listen", "nowhere", "--sessions", "0"]);
        assert!(!well, "{text}");
        no_mark(way.name, "what is wrong", &text);
        run.push(start(way, folder.path()).await);
    }
    // The files go wrong, and so does the store; then all is well again.
    for (way, (server, _, log)) in ways.iter().zip(&run) {
        let Some((file, around, password)) = &way.rotated else { continue };
        mount(&secrets, file, &around.replace("{}", "zq7mark-wrong"));
        end_sessions(&cluster).await;
        tells(log, &["password authentication failed"]).await;
        let (text, well) = written(way, &["serve", "--startup-wait", "0s", "--listen", "127.0.0.1:0"]);
        assert!(!well && text.contains("password authentication failed"), "{text}");
        no_mark(way.name, "a start with a wrong password", &text);
        for broken in
            ["", "zq7mark\0", &"zq7mark".repeat(10_000), "zq7mark://zq7mark:zq7mark@zq7mark:zq7mark/"]
        {
            mount(&secrets, file, broken);
            let (text, _) = written(way, &["serve", "--startup-wait", "0s", "--listen", "127.0.0.1:0"]);
            no_mark(way.name, "a start with a broken file", &text);
        }
        server.becomes(ServingStatus::NotServing).await;
        let refused = server.client().await.claim(claim("c", "refused")).await.unwrap_err();
        let reason = refusal(&refused).reason;
        assert!(["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN"].contains(&reason.as_str()), "{reason}");
        no_mark(way.name, "a refusal", &format!("{refused:?}"));
        mount(&secrets, file, &around.replace("{}", password));
        server.becomes(ServingStatus::Serving).await;
    }
    let cluster = tokio::task::spawn_blocking(move || {
        cluster.crash();
        cluster
    })
    .await
    .unwrap();
    for (way, (server, observed, _)) in ways.iter().zip(&run) {
        server.becomes(ServingStatus::NotServing).await;
        let refused = server.client().await.claim(claim("c", "away")).await.unwrap_err();
        no_mark(way.name, "a refusal without a store", &format!("{refused:?}"));
        no_mark(way.name, "its metrics", &asked(observed, "GET /metrics").await.1);
    }
    for (way, (server, _, log)) in ways.iter().zip(run) {
        let arguments = std::fs::read_to_string(format!("/proc/{}/cmdline", server.child.id())).unwrap();
        no_mark(way.name, "its arguments", &arguments);
        drop(server);
        let log = crate::harness::log_file::settled(&log);
        assert!(log.contains("DEBUG"), "{log}");
        no_mark(way.name, "its log", &log);
        let out = folder.path().join(format!("{}.out", way.name));
        no_mark(way.name, "its standard output", &std::fs::read_to_string(out).unwrap());
    }
    drop(cluster);
}

/// A server that tells all it can, where its metrics are, and its log.
async fn start(way: &Way, folder: &Path) -> (Server, String, std::path::PathBuf) {
    let (address, observed) = (format!("127.0.0.1:{}", free_port()), format!("127.0.0.1:{}", free_port()));
    let file = |name: &str| folder.join(format!("{}.{name}", way.name));
    let child =
        command(way, &["serve", "--listen", &address, "--observe-listen", &observed, "--log", "debug"])
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(file("out")).unwrap())
            .stderr(std::fs::File::create(file("log")).unwrap())
            .spawn()
            .unwrap();
    let server = Server { child, address };
    server.becomes(ServingStatus::Serving).await;
    let answer = server.client().await.claim(claim("c", way.name)).await.unwrap().into_inner();
    acquired(&answer);
    (server, observed, file("log"))
}
