//! `context`: the file of contexts is changed whole or not at all, and what is wrong in it is told with its place.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::{Ran, command, ended};

/// A person with contexts of their own.
pub(super) struct Home(tempfile::TempDir);

impl Home {
    pub(super) fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    /// One with this file.
    pub(super) fn with_file(text: &str) -> Home {
        let home = Home::new();
        fs::create_dir(home.file().parent().unwrap()).unwrap();
        fs::write(home.file(), text).unwrap();
        home
    }

    pub(super) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder().join("idempotency-ledger").join("contexts.toml")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    /// A file beside the contexts.
    pub(super) fn put(&self, name: &str, text: &str) {
        fs::write(self.file().parent().unwrap().join(name), text).unwrap();
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(&[], arguments)
    }

    /// The same with these variables.
    pub(super) fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
        let mut command = command(arguments);
        command.env("XDG_CONFIG_HOME", self.folder()).envs(variables.iter().copied());
        tokio::task::block_in_place(|| ended(command.current_dir(self.folder()).output().unwrap()))
    }

    /// A refusal, which changes nothing.
    #[track_caller]
    fn refuses(&self, arguments: &[&str], says: &[&str]) {
        let before = fs::read_to_string(self.file()).ok();
        self.run(arguments).says(2, says);
        assert_eq!(fs::read_to_string(self.file()).ok(), before, "{arguments:?}");
    }
}

const TWO: &str = "current = \"staging\"\n\n# Production: ask first.\n[contexts.prod]\n\
                   endpoint = \"https://ledger.example:50051\" # the balancer\ntoken_file = \"token\"\n\n\
                   # Anybody's.\n[contexts.staging]\nendpoint = \"127.0.0.1:1\"\n";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_context_is_set_used_shown_and_removed() {
    let home = Home::new();
    home.run(&["context", "list"])
        .is(0, "")
        .says(0, &["there is none yet: `context set NAME --endpoint URL`"]);
    let set =
        ["context", "set", "prod", "--endpoint", "https://ledger.example:50051", "--token-file", "token"];
    home.run(&set).says(0, &["added prod in ", "token is not there", "--context prod", "`context use prod`"]);
    let token = home.folder().join("token");
    let prod = format!(
        "[contexts.prod]\nendpoint = \"https://ledger.example:50051\"\ntoken_file = \"{}\"\n",
        token.display()
    );
    assert_eq!(home.text(), prod, "a path is as it is from every folder");
    home.run(&["context", "set", "staging", "--server", "127.0.0.1:1"]).says(0, &["added staging"]);
    home.run(&["context", "show"]).says(2, &["no context is the current one; there are: prod, staging"]);
    home.run(&["context", "use", "prod"])
        .says(0, &["the current context is prod: https://ledger.example:50051"]);
    home.run(&["context", "list"])
        .is(0, "   NAME     ENDPOINT\n*  prod     https://ledger.example:50051\n   staging  127.0.0.1:1\n");
    home.run(&["context", "set", "prod", "--timeout", "10s"]).says(0, &["changed prod"]);
    let shown = home.run(&["context", "show"]).says(0, &["context     prod (the current one)\n"]);
    for line in ["endpoint    https://ledger.example:50051\n", "timeout     10s\n", "file        /"] {
        assert!(shown.out.contains(line), "{line}: {shown:?}");
    }
    home.run(&["context", "show", "staging"]).says(0, &["context   staging\n"]);
    home.run(&["context", "remove", "staging"]).is(0, "");
    home.run(&["context", "remove", "prod"]).says(0, &["it was the current one, and none is now"]);
    assert_eq!(home.text().trim(), "");
}

#[test]
fn machines_read_contexts_as_json() {
    let home = Home::with_file(&TWO.replace("127.0.0.1:1\"", "127.0.0.1:1\"\nplaintext_token = true"));
    let listed = home.run(&["context", "list", "--json"]).json();
    let prod = serde_json::json!({
        "name": "prod", "endpoint": "https://ledger.example:50051", "tokenFile": "token", "current": false,
    });
    let staging = serde_json::json!({
        "name": "staging", "endpoint": "127.0.0.1:1", "plaintextToken": true, "current": true,
    });
    assert_eq!(listed, [prod.clone(), staging.clone()]);
    assert_eq!(home.run(&["--json", "context", "show"]).json(), [staging]);
    assert_eq!(home.run(&["context", "show", "prod", "--json"]).json(), [prod]);
}

#[test]
fn a_change_leaves_all_else_as_it_stands() {
    let home = Home::with_file(TWO);
    home.run(&["context", "use", "prod"]).says(0, &[]);
    assert_eq!(home.text(), TWO.replace("current = \"staging\"", "current = \"prod\""));
    home.run(&["context", "set", "prod", "--endpoint", "https://other:1", "--timeout", "5s"]).says(0, &[]);
    let changed = home.text();
    assert!(changed.contains("endpoint = \"https://other:1\" # the balancer\n"), "{changed}");
    assert!(changed.contains("token_file = \"token\"\ntimeout = \"5s\"\n\n# Anybody's.\n"), "{changed}");
    home.run(&["context", "set", "new.one", "--endpoint", "a:1"]).says(0, &[]);
    assert_eq!(home.text(), format!("{changed}\n[contexts.\"new.one\"]\nendpoint = \"a:1\"\n"));
    home.run(&["context", "remove", "prod"]).says(0, &[]);
    let left = "# Anybody's.\n[contexts.staging]\nendpoint = \"127.0.0.1:1\"\n\n";
    assert_eq!(home.text(), format!("{left}[contexts.\"new.one\"]\nendpoint = \"a:1\"\n"));
    // What is written in another way is left to its author.
    let other = "contexts = { prod = { endpoint = \"a:1\" }, staging = { endpoint = \"b:1\" } }\n";
    let home = Home::with_file(other);
    let editor = ["is not written in sections", "change it with an editor"];
    home.refuses(&["context", "remove", "prod"], &editor);
    home.refuses(&["context", "set", "prod", "--timeout", "1s"], &editor);
    home.refuses(&["context", "set", "new", "--endpoint", "a:1"], &editor);
    home.run(&["context", "use", "staging"]).says(0, &[]);
    assert_eq!(home.text(), format!("current = \"staging\"\n\n{other}"));
}

#[test]
fn the_file_is_its_owners_alone() {
    let home = Home::new();
    home.run(&["context", "set", "a", "--endpoint", "a:1"]).says(0, &[]);
    let folder = home.file().parent().unwrap().to_owned();
    assert_eq!((mode(&home.file()), mode(&folder)), (0o600, 0o700));
    // However it was left, and whoever else uses the folder.
    fs::set_permissions(home.file(), fs::Permissions::from_mode(0o644)).unwrap();
    home.run(&["context", "use", "a"]).says(0, &[]);
    assert_eq!(mode(&home.file()), 0o600);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no temporary file stays");
    // A link stays a link.
    let kept = home.folder().join("kept.toml");
    fs::rename(home.file(), &kept).unwrap();
    symlink(&kept, home.file()).unwrap();
    home.run(&["context", "set", "b", "--endpoint", "b:1"]).says(0, &[]);
    assert!(fs::symlink_metadata(home.file()).unwrap().is_symlink());
    assert!(fs::read_to_string(&kept).unwrap().contains("[contexts.a]\nendpoint = \"a:1\"\n\n[contexts.b]"));
    // Another file is named, and made where it is not there yet.
    let file = home.folder().join("deep/mine.toml").display().to_string();
    home.run(&["context", "list", "--contexts-file", &file]).says(2, &["mine.toml: No such file"]);
    home.run(&["--contexts-file", &file, "context", "set", "c", "--endpoint", "c:1"]).says(0, &[]);
    let listed = home.run_with(&[("IDEMPOTENCY_LEDGER_CONTEXTS", &file)], &["context", "list", "--json"]);
    assert_eq!(listed.json().len(), 1, "{listed:?}");
}

#[test]
fn of_those_who_change_it_at_once_none_is_lost() {
    let home = Home::with_file(TWO);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let home = &home;
            scope.spawn(move || {
                let name = format!("c{number}");
                home.run(&["context", "set", &name, "--endpoint", "a:1"]).says(0, &["added"]);
            });
        }
    });
    assert_eq!(home.run(&["context", "list", "--json"]).json().len(), 10);
}

#[test]
fn what_nobody_could_be_reached_by_is_refused() {
    let home = Home::with_file(TWO);
    for (arguments, says) in [
        (
            &["set", "new", "--timeout", "1s"][..],
            "context \"new\" does not exist yet, and a new one needs --endpoint",
        ),
        (&["set", "prod"], "nothing to set"),
        (&["set", "a b", "--endpoint", "a:1"], "a context's name has 1 to 64"),
        (&["set", "", "--endpoint", "a:1"], "a context's name has 1 to 64"),
        (&["set", "n", "--endpoint", "ftp://a:1"], "is none of http://HOST:PORT"),
        (&["set", "n", "--endpoint", "https://me:pw@a:1"], "--endpoint: must not hold a user"),
        (&["set", "n", "--endpoint", "http://a:1", "--tls-ca", "x"], "--tls-… needs https://"),
        (&["set", "n", "--endpoint", "a:1", "--tls-cert", "x"], "--tls-cert and --tls-key"),
        (&["set", "n", "--endpoint", "http://a:1", "--token-file", "x"], "the token is not sent"),
        (&["set", "n", "--endpoint", "a:1", "--timeout", "soon"], "--timeout: `soon` is not a duration"),
        (&["use", "prd"], "context \"prd\" does not exist; there are: prod, staging"),
        (&["remove", "prd"], "context \"prd\" does not exist; there are: prod, staging"),
        (&["show", "prd"], "context \"prd\" does not exist; there are: prod, staging"),
    ] {
        home.refuses(&[&["context"], arguments].concat(), &[says]);
    }
    let plain = ["context", "set", "n", "--endpoint", "http://a:1", "--token-file", "x", "--plaintext-token"];
    home.run(&plain).says(0, &["added n"]);
}

#[test]
fn a_wrong_file_is_told_with_line_and_field() {
    let prod = "[contexts.prod]\nendpoint = \"a:1\"\n";
    for (text, says) in [
        ("current = \"prod\"\ncurent = \"x\"\n".to_owned(), "line 2: \"curent\": unknown"),
        (format!("{prod}token = \"s3cret\"\n"), "line 3: contexts.prod.token: a token never stands here"),
        (format!("{prod}tls-ca = \"x\"\n"), "line 3: contexts.prod.tls-ca: unknown; there are endpoint, "),
        (format!("{prod}timeout = 5\n"), "line 3: contexts.prod.timeout: must be a text"),
        (format!("{prod}[contexts.prod]\n"), "line 3: "),
        ("[contexts.prod\n".to_owned(), "line 1: "),
    ] {
        let home = Home::with_file(&text);
        let file = home.file().display().to_string();
        for command in [
            &["context", "list"][..],
            &["context", "set", "x", "--endpoint", "b:1"],
            &["policy", "list"],
            &["policy", "list", "--context", "prod"],
        ] {
            home.refuses(command, &["the file of contexts cannot be used", &file, says]);
            assert!(!home.run(command).err.contains("s3cret"));
        }
        // Nobody needs it who names the server.
        home.run(&["policy", "list", "--endpoint", "127.0.0.1:1"]).says(5, &["error: http://127.0.0.1:1/"]);
    }
    let home = Home::new();
    fs::create_dir_all(home.file()).unwrap();
    home.run(&["policy", "list"]).says(2, &["the file of contexts: ", "contexts.toml: "]);
}

#[test]
fn a_variable_that_comes_before_the_current_context_is_told() {
    let home = Home::with_file(TWO);
    let says = "IDEMPOTENCY_LEDGER_CONTEXT is set: it comes before the current context";
    let variable = [("IDEMPOTENCY_LEDGER_CONTEXT", "prod")];
    home.run_with(&variable, &["context", "list"]).says(0, &[says]);
    home.run_with(&variable, &["context", "use", "prod"]).says(0, &[says]);
    assert_eq!(home.run_with(&variable, &["context", "list", "--json"]).err, "");
}

#[test]
fn list_with_an_absent_current_context_names_it() {
    let home = Home::with_file(&TWO.replacen("staging", "gone", 1));
    home.run(&["context", "list"])
        .says(0, &["prod", "staging", "the current one, gone, is not among them: choose another"]);
}
