//! Nobody but the system's administrator reads the memory of a server.

use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Stdio};

use tonic_health::pb::health_check_response::ServingStatus;

use crate::harness::postgres::{free_port, is_root};
use crate::process::{BINARY, Server};

/// A program as a user that is not the administrator.
pub(crate) fn as_somebody(program: &str) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", program]);
    command
}

/// Who owns the environment of a process: its user, as long as that may read its memory.
fn owner(child: &Child) -> u32 {
    std::fs::metadata(format!("/proc/{}/environ", child.id())).unwrap().uid()
}

#[tokio::test]
async fn the_memory_of_a_server_is_nobodys_but_the_administrators() {
    // Where the program lies, others may not go.
    let folder = tempfile::Builder::new().prefix("ledger-memory-").tempdir_in("/tmp").unwrap();
    let program = folder.path().join("ledger");
    std::fs::copy(BINARY, &program).unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    for (path, mode) in [(folder.path(), 0o755), (&program, 0o755), (&data, 0o777)] {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    // What it would be without a word to the system.
    let mut other = as_somebody("sleep").arg("60").spawn().unwrap();
    let user = loop {
        // `setpriv` has a user of its own until it becomes that program.
        let owner = owner(&other);
        if !is_root() || owner != 0 {
            break owner;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    };
    other.kill().unwrap();
    other.wait().unwrap();
    let (address, observed) = (format!("127.0.0.1:{}", free_port()), format!("127.0.0.1:{}", free_port()));
    let child = as_somebody(program.to_str().unwrap())
        .args(["serve", "--listen", &address, "--observe-listen", &observed])
        .args(["--database-url", &format!("sqlite://{}", data.join("ledger.db").display())])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server { child, address };
    server.becomes(ServingStatus::Serving).await;
    assert_ne!(owner(&server.child), user, "its user can read its memory");
    // It can still look at itself.
    let series = crate::observe::series(&observed).await;
    for name in ["process_open_fds", "process_resident_memory_bytes", "process_threads"] {
        assert!(series.get(name).is_some_and(|value| *value > 0.0), "{name} is not known");
    }
}
