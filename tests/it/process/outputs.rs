//! Outputs in an odd state that other processes have left: set to be non-blocking, on a full disk, closed from the start.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use idempotency_ledger::proto::{self, claim_response::Verdict};
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;

use super::log::{END_MAX, PIPE_BYTES, ends};
use super::{BINARY, Server, sqlite};
use crate::harness::details::{acquired, claim, refusal};
use crate::harness::disk::SmallDisk;
use crate::harness::postgres::{self as pg, free_port};
use crate::harness::signals::signal;
use crate::waiting::secs;

/// Sets its standard output and error to be non-blocking, as event loops do with theirs, and starts the program: the mode is
/// that of the open pipe, which both have.
const NON_BLOCKING: &str = "import os, sys\n\
                            for fd in (1, 2): os.set_blocking(fd, False)\n\
                            os.execv(sys.argv[1], sys.argv[1:])";

#[test]
fn an_answer_is_whole_though_its_pipe_does_not_block() {
    let plain = Command::new(BINARY).args(["completions", "bash"]).output().unwrap();
    assert!(plain.stdout.len() > PIPE_BYTES, "{} bytes fit into a pipe", plain.stdout.len());
    let mut command = Command::new("python3");
    command.args(["-c", NON_BLOCKING, BINARY, "completions", "bash"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    // The pipe is full before the first byte is read.
    while rustix::io::ioctl_fionread(&out).unwrap() < PIPE_BYTES as u64 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before its pipe was full");
        std::thread::sleep(Duration::from_millis(1));
    }
    let (mut answer, mut errors) = (Vec::new(), String::new());
    out.read_to_end(&mut answer).unwrap();
    err.read_to_string(&mut errors).unwrap();
    assert_eq!((child.wait().unwrap().code(), answer.len()), (Some(0), plain.stdout.len()), "{errors}");
    assert!(answer == plain.stdout);
}

/// The descriptors 0 to 2 are closed: none of them becomes a socket or the ledger's file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_outputs_writes_its_log_into_nothing_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let child = Command::new("sh")
        .args(["-c", "exec \"$@\" 0<&- 1>&- 2>&-", "sh", BINARY, "serve", "--listen", &address])
        .args(["--database-url", &sqlite(folder.path()), "--log", "trace", "--drain-wait", "0s"])
        .args(["--observe-listen", "off"])
        .spawn()
        .unwrap();
    let mut server = Server { child, address };
    server.becomes(ServingStatus::Serving).await;
    for fd in 0..3 {
        let target = std::fs::read_link(format!("/proc/{}/fd/{fd}", server.child.id())).unwrap();
        assert_eq!(target, std::path::Path::new("/dev/null"), "descriptor {fd}");
    }
    acquired(server.client().await.claim(claim("c", "1")).await.unwrap().get_ref());
    signal("TERM", &[server.child.id()]);
    assert_eq!(ends(&mut server.child, END_MAX).await.code(), Some(0));
}

/// The log's disk is full, and has room again: calls are answered meanwhile, and the log reports how many lines it lacks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_on_a_full_disk_reports_what_it_lacks_once_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let (logs, data) = (folder.path().join("logs"), folder.path().join("data"));
    std::fs::create_dir(&logs).unwrap();
    std::fs::create_dir(&data).unwrap();
    let disk = SmallDisk::new(&logs);
    let mut command = disk.command("256k");
    let line = format!("head -c 1000000 /dev/zero > '{0}/ballast'; exec \"$@\" 2>>'{0}/log'", logs.display());
    command.args(["sh", "-c", &line, "sh", BINARY]);
    let settings = ["--log", "debug", "--log-format", "json", "--observe-listen", "off"];
    let server = Server::with(command, &sqlite(&data), &settings, Stdio::null()).await;
    let mut client = server.client().await;
    for number in 0..20 {
        acquired(client.claim(claim("full", &number.to_string())).await.unwrap().get_ref());
    }
    let seen = format!("/proc/{}/root{}", server.child.id(), logs.display());
    assert_eq!(std::fs::metadata(format!("{seen}/log")).unwrap().len(), 0, "the disk has room");
    std::fs::File::create(format!("{seen}/ballast")).unwrap().flush().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    for number in 0.. {
        acquired(client.claim(claim("room", &number.to_string())).await.unwrap().get_ref());
        let text = std::fs::read_to_string(format!("{seen}/log")).unwrap();
        if text.lines().any(|line| line.contains("lines of the log were dropped")) {
            break;
        }
        assert!(Instant::now() < until, "no report: {text}");
    }
}

/// By default a file that would exceed the limit of file sizes ends the process that writes it: here the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_beyond_the_limit_of_file_sizes_ends_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = Command::new("sh");
    // 16 KiB: blocks are 512 or 1,024 bytes, as the shell has it.
    let line = format!("ulimit -f 16; exec \"$@\" 2>'{}'", log.display());
    command.args(["-c", &line, "sh", BINARY]);
    let database = pg::database().await;
    let settings = ["--log", "debug", "--observe-listen", "off"];
    let server = Server::with(command, &pg::shared().url(&database), &settings, Stdio::null()).await;
    let mut client = server.client().await;
    let until = Instant::now() + Duration::from_secs(20);
    for number in 0.. {
        acquired(client.claim(claim("large", &number.to_string())).await.unwrap().get_ref());
        if std::fs::metadata(&log).unwrap().len() >= 8_192 && number > 200 {
            break;
        }
        assert!(Instant::now() < until, "the log has not reached its limit");
    }
}

/// The same of the store's own file: claims are refused clearly, and what was acknowledged is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_beyond_the_limit_of_file_sizes_is_a_clear_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    drop(Server::start(&url).await);
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -f 400; exec \"$@\"", "bash", BINARY]);
    let server = Server::with(command, &url, &["--observe-listen", "off"], Stdio::null()).await;
    let mut client = server.client().await;
    let mut acknowledged = Vec::new();
    let refused = loop {
        let id = format!("{}-{}", acknowledged.len(), "x".repeat(400));
        // The longest lease of the default policy: the last look must come before its end.
        let request = proto::ClaimRequest { lease: secs(900), ..claim("large", &id) };
        match client.claim(request).await {
            Ok(_) => acknowledged.push(id),
            Err(status) => break refusal(&status),
        }
        assert!(acknowledged.len() < 20_000, "the file has no limit");
    };
    // SQLite does not say whether such a write was its last one.
    let reasons = ["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN"];
    assert!(refused.code == Code::Unavailable && reasons.contains(&&*refused.reason), "{refused:?}");
    drop(server);
    let server = Server::start(&url).await;
    let mut client = server.client().await;
    for id in acknowledged {
        let answer = client.claim(claim("large", &id)).await.unwrap().into_inner();
        assert!(matches!(answer.verdict, Some(Verdict::InProgress(_))), "{id} is lost: {answer:?}");
    }
}
