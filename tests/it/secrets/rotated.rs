//! Rotated secrets are in force without a restart.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use idempotency_ledger::proto::{self, ledger_service_client::LedgerServiceClient};
use tonic::transport::Channel;
use tonic_health::pb::health_check_response::ServingStatus;

use super::{cluster, end_sessions, grant, mount, tells};
use crate::harness::details::{acquired, claim, refusal};
use crate::harness::postgres::free_port;
use crate::harness::timer::Timer;
use crate::process::{BINARY, Server, sqlite};

/// A server whose settings are these, and its log.
async fn served(folder: &Path, settings: &[&str]) -> Server {
    let address = format!("127.0.0.1:{}", free_port());
    let child = Command::new(BINARY)
        .args(["serve", "--observe-listen", "off", "--listen", &address])
        .args(settings)
        .stderr(std::fs::File::create(folder.join("log")).unwrap())
        .spawn()
        .unwrap();
    let server = Server { child, address };
    server.becomes(ServingStatus::Serving).await;
    server
}

/// How long the machine must have delayed a server that reports SERVING before it has a session for claims: it opens one after
/// the first heartbeat that is answered, and reports SERVING after the second one, a second later.
const NO_SESSION: Duration = Duration::from_millis(500);

/// Waits until the server reports SERVING, and claims. The first claim must be answered: by docs/contract.md, section 3, sessions
/// work while the server reports SERVING.
async fn claims_again(
    server: &Server,
    client: &mut LedgerServiceClient<Channel>,
    id: &str,
) -> proto::ClaimResponse {
    let timer = Timer::start();
    server.becomes(ServingStatus::Serving).await;
    let serving = Timer::start();
    loop {
        match client.claim(claim("c", id)).await {
            Ok(answer) => return answer.into_inner(),
            Err(status) => {
                assert_eq!(refusal(&status).reason, "STORE_UNAVAILABLE", "{status:?}");
                let delayed = timer.delayed();
                assert!(
                    delayed >= NO_SESSION,
                    "refused while SERVING, after delays of {delayed:?}: {status:?}"
                );
                serving.within(Duration::from_secs(6), "the first session for claims");
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_password_and_user_are_used_without_a_restart() {
    let cluster = cluster("app", "first").await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let secrets = folder.path().join("secrets");
    std::fs::create_dir(&secrets).unwrap();
    let user = mount(&secrets, "user", "app\n");
    let password = mount(&secrets, "password", "first\n");
    let server = served(
        folder.path(),
        &[
            "--database-url",
            &cluster.url_of(""),
            "--database-user-file",
            &user,
            "--database-password-file",
            &password,
        ],
    )
    .await;
    let mut client = server.client().await;
    acquired(&client.claim(claim("c", "1")).await.unwrap().into_inner());
    // Sessions that are open do not mind.
    cluster.execute("postgres", "ALTER ROLE app PASSWORD 'second'").await;
    acquired(&client.claim(claim("c", "2")).await.unwrap().into_inner());
    end_sessions(&cluster).await;
    server.becomes(ServingStatus::NotServing).await;
    tells(&log, &["password authentication failed"]).await;
    mount(&secrets, "password", "second\n");
    acquired(&claims_again(&server, &mut client, "3").await);
    // A secret that is not there is no reason to end.
    std::fs::remove_file(&password).unwrap();
    end_sessions(&cluster).await;
    server.becomes(ServingStatus::NotServing).await;
    tells(&log, &[&format!("database_password_file: {password}: No such file")]).await;
    let refused = refusal(&client.claim(claim("c", "4")).await.unwrap_err());
    assert!(["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN"].contains(&refused.reason.as_str()), "{refused:?}");
    // A new role, with a password of its own.
    cluster.execute("postgres", "CREATE ROLE next LOGIN PASSWORD 'third'").await;
    grant(&cluster, "next");
    mount(&secrets, "user", "next");
    mount(&secrets, "password", "third");
    acquired(&claims_again(&server, &mut client, "5").await);
    let mut connection = cluster.connect("postgres").await;
    let users: Vec<String> = sqlx::query_scalar(
        "SELECT DISTINCT usename::text FROM pg_stat_activity WHERE application_name LIKE 'idempotency-ledger %'",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert_eq!(users, ["next"]);
}

/// Of a URL in a file, who connects is rotated; another place is told of, and is not gone to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_url_changes_who_connects_and_not_whereto() {
    let cluster = cluster("app", "first").await;
    let folder = tempfile::tempdir().unwrap();
    let file = mount(folder.path(), "url", &cluster.url_of("app:first@"));
    let server = served(folder.path(), &["--database-url-file", &file]).await;
    let mut client = server.client().await;
    acquired(&client.claim(claim("c", "1")).await.unwrap().into_inner());
    cluster.execute("postgres", "ALTER ROLE app PASSWORD 'second'").await;
    mount(folder.path(), "url", &format!("postgres://app:second@127.0.0.1:{}/other", free_port()));
    end_sessions(&cluster).await;
    tells(&folder.path().join("log"), &["database_url_file names other servers"]).await;
    let known = claims_again(&server, &mut client, "1").await;
    assert!(matches!(known.verdict, Some(proto::claim_response::Verdict::InProgress(_))));
}

/// What is wrong with a file is told at the start and by `--check-config`, by its setting and its path.
#[test]
fn a_wrong_file_is_told_at_the_start_by_its_setting_and_path() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let (good, empty) = (write("good", "s3cret\n"), write("empty", "\n"));
    let (large, gone) = (write("large", &"s3cret".repeat(11_000)), folder.path().join("gone"));
    let gone = gone.to_str().unwrap();
    let url = write("url", "postgres://u:s3cret@127.0.0.1:1/x\n");
    let wrong_url = write("wrong", "mysql://u:s3cret@127.0.0.1/x");
    let lite = sqlite(folder.path());
    let (with_user, with_password) = ("postgres://u@127.0.0.1:1/x", "postgres://u:s3cret@127.0.0.1:1/x");
    let rows: &[(&[&str], &str)] = &[
        (&["--database-url", with_user, "--database-url-file", &url], "database_url_file: is given, and"),
        (&["--database-url-file", gone], "database_url_file: {gone}: No such file"),
        (&["--database-url-file", &wrong_url], "database_url_file: {wrong}: must start with sqlite:// or"),
        (&["--database-url-file", ""], "database_url_file: is neither `none`"),
        (
            &["--database-url", with_user, "--database-password-file", &empty],
            "_password_file: {empty}: is empty",
        ),
        (&["--database-url", with_user, "--database-password-file", &large], "{large}: has more than 65536"),
        (
            &["--database-url", with_user, "--database-user-file", &good],
            "_user_file: the URL has a user, too",
        ),
        (
            &["--database-url", with_password, "--database-password-file", &good],
            "the URL has a password, too",
        ),
        (&["--database-url-file", &url, "--database-password-file", &good], "the URL has a password, too"),
        (
            &["--database-url", &lite, "--database-password-file", &good],
            "_password_file: is for Postgres alone",
        ),
        (
            &["--database-url", &lite, "--max-connection-lifetime", "5s"],
            "lifetime: is 5s, must be 10s to 86400s",
        ),
    ];
    for (settings, says) in rows {
        let path = |name: &str| folder.path().join(name).display().to_string();
        let mut says = (*says).to_owned();
        for name in ["gone", "wrong", "empty", "large"] {
            says = says.replace(&format!("{{{name}}}"), &path(name));
        }
        for check in [&["--check-config"][..], &["--listen", "127.0.0.1:0"]] {
            let output = Command::new(BINARY).arg("serve").args(*settings).args(check).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{settings:?}: {text}");
            assert!(text.contains(&says), "{settings:?} must say {says:?}: {text}");
            assert!(!text.contains("s3cret"), "{text}");
        }
    }
    // Files that are right; none takes a setting back; zero is for ever.
    let taken_back =
        ["--database-url", with_user, "--database-url-file", "none", "--max-connection-lifetime", "0s"];
    for settings in [&["--database-url-file", &url][..], &taken_back] {
        let output = Command::new(BINARY).args(["serve", "--check-config"]).args(settings).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{output:?}");
        assert!(text.contains("Postgres database x on 127.0.0.1:1") && !text.contains("s3cret"), "{text}");
    }
}
