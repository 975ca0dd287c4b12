//! The file of a spool: its lock, its form, and what a crash leaves of it.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::spool::{away, field, fields, key};
use crate::{
    Advice,
    spool::{Event, Spool, SpoolLine},
};

/// Names the spool where this program runs again as another process.
const OTHER: &str = "SPOOL_OF_ANOTHER_PROCESS";

/// A folder that is removed with its value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("ledger-spool-{}", uuid::Uuid::new_v4().simple());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn spool(&self) -> PathBuf {
        self.0.join("spool.jsonl")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn events(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(|line| field(line, "event").unwrap()).collect()
}

async fn done(spool: &Spool) -> Advice {
    spool.process(away(), "payments", key(), async || Ok(())).await.unwrap().advice
}

fn refusal(path: &Path) -> String {
    Spool::open(path).unwrap_err().to_string()
}

/// Opens a spool that was closed. A process that another test starts has the descriptor too, until it runs its program.
fn reopened(path: &Path) -> Spool {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match Spool::open(path) {
            Err(error) if Instant::now() < until && error.to_string().contains("has the file") => {}
            opened => return opened.unwrap(),
        }
    }
}

/// Another process that opens the spool, and begins an effect that never ends.
fn other(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::spool_file::another_process", "--nocapture"])
        .env(OTHER, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What the process prints, up to a line that has this text.
fn printed(other: &mut Child, text: &str) -> bool {
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    lines.any(|line| line.unwrap().contains(text))
}

#[tokio::test]
async fn another_process() {
    let Ok(path) = std::env::var(OTHER) else { return };
    match Spool::open(path) {
        Err(error) => println!("{error}"),
        Ok(spool) => {
            let effect = async || {
                println!("the effect runs");
                std::future::pending::<()>().await;
                Ok(())
            };
            spool.process(away(), "payments", key(), effect).await.unwrap();
        }
    }
}

#[tokio::test]
async fn effect_without_a_claim_is_written_down_before_and_after() {
    let folder = Folder::new();
    let path = folder.spool();
    let spool = Spool::open(&path).unwrap();
    let during = path.clone();
    let effect = async move || {
        assert_eq!(events(&during), ["begin"]);
        Ok("paid")
    };
    let found = spool.process(away(), "payments", key().body("body"), effect).await.unwrap();
    assert_eq!((found.advice, found.result.as_deref()), (Advice::Ack, Some(&b"paid"[..])));
    assert!(found.away && !found.result_dropped && !found.effect_unknown && found.reason.is_none());
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for (name, value) in [("v", "1"), ("consumer", "payments"), ("source", "shop"), ("id", "order-1")] {
        assert_eq!(field(lines[0], name).as_deref(), Some(value));
    }
    assert_eq!(field(lines[0], "fingerprint_hex").unwrap().len(), 64);
    assert_eq!(field(lines[0], "row"), field(lines[1], "row"));
    assert_eq!(field(lines[1], "event").as_deref(), Some("end"));
    assert_eq!(field(lines[1], "result_base64").as_deref(), Some("cGFpZA=="));
    assert!(field(lines[0], "at") < field(lines[1], "at"));
}

#[test]
fn spool_file_is_readable_for_its_owner_alone() {
    let folder = Folder::new();
    let _spool = Spool::open(folder.spool()).unwrap();
    assert_eq!(fs::metadata(folder.spool()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn lines_have_the_form_of_the_documented_example() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/away.md")).unwrap();
    let example = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let written: Vec<String> = example
        .lines()
        .map(|line| {
            let of = |name| field(line, name).unwrap_or_default();
            let hex = of("fingerprint_hex");
            let bytes =
                (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap());
            let result = if of("result_base64").is_empty() { &b""[..] } else { b"paid" };
            let same = SpoolLine {
                row: of("row"),
                consumer: of("consumer"),
                source: of("source"),
                id: of("id"),
                fingerprint: bytes.collect(),
                result: result.into(),
            };
            let event = match &*of("event") {
                "begin" => Event::Begin,
                "end" => Event::End,
                _ => Event::None,
            };
            let at: prost_types::Timestamp = of("at").parse().unwrap();
            let micros = at.seconds * 1_000_000 + i64::from(at.nanos) / 1_000;
            same.render(event, micros.try_into().unwrap())
        })
        .collect();
    assert_eq!((written.len(), written.concat()), (3, example.to_owned()));
}

#[test]
fn texts_and_results_are_encoded() {
    for (result, text) in [("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("\u{fff}\u{ff}", "4L+/w78=")] {
        let line = SpoolLine {
            row: "r".to_owned(),
            consumer: "a\"b\\".to_owned(),
            source: "\u{e9}\u{2028}".to_owned(),
            id: "\\\"".to_owned(),
            fingerprint: Vec::new(),
            result: result.into(),
        };
        let rendered = line.render(Event::End, 0);
        assert!(rendered.contains(r#""consumer":"a\"b\\","source":"é"#), "{rendered}");
        assert!(rendered.contains(r#""id":"\\\"""#), "{rendered}");
        assert_eq!(fields(rendered.trim_end()).last().unwrap(), &("result_base64".into(), text.into()));
    }
}

#[tokio::test]
async fn line_that_was_cut_off_is_not_continued() {
    let folder = Folder::new();
    fs::write(folder.spool(), "{\"v\":1,\"ev").unwrap();
    let spool = Spool::open(folder.spool()).unwrap();
    assert_eq!(done(&spool).await, Advice::Ack);
    spool.close();
    let text = fs::read_to_string(folder.spool()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "{\"v\":1,\"ev"));
    assert_eq!(field(lines[1], "event").as_deref(), Some("begin"));
    // Where the last line is whole, nothing is added.
    drop(reopened(&folder.spool()));
    assert_eq!(fs::read_to_string(folder.spool()).unwrap(), text);
}

#[tokio::test]
async fn second_opener_is_refused() {
    let folder = Folder::new();
    let spool = Spool::open(folder.spool()).unwrap();
    assert!(refusal(&folder.spool()).contains("has the file"));
    let mut second = other(&folder.spool());
    assert!(printed(&mut second, "has the file"));
    second.wait().unwrap();
    assert_eq!(done(&spool).await, Advice::Ack);
    spool.close();
    spool.close();
    assert_eq!(done(&spool).await.name(), "RETRY_LATER");
    reopened(&folder.spool());
}

#[tokio::test]
async fn process_killed_amid_the_effect_leaves_the_beginning() {
    let folder = Folder::new();
    let mut killed = other(&folder.spool());
    assert!(printed(&mut killed, "the effect runs"));
    assert!(refusal(&folder.spool()).contains("has the file"));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(events(&folder.spool()), ["begin"]);
    assert_eq!(done(&reopened(&folder.spool())).await, Advice::Ack);
    assert_eq!(events(&folder.spool()), ["begin", "begin", "end"]);
}

#[test]
fn file_that_cannot_be_opened_is_refused() {
    let folder = Folder::new();
    assert!(refusal(&folder.0.join("missing/spool.jsonl")).contains("missing"));
    assert!(!refusal(&folder.0).is_empty());
}
