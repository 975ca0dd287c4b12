//! Each setting acts: set to another value than its default, by its flag, it changes one thing that a client, an operator or the
//! database sees. The catalogue is the table of `docs/configuration.md`, which is printed from the program.

mod aging;
mod limits;
mod postgres;
mod rows;
mod scene;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;

use self::rows::ROWS;
use self::scene::{Scene, import, refused};
use super::{BINARY, Server, sqlite};
use crate::docs::read;
use crate::harness::postgres::free_port;

/// How long a condition may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// A value that is an address: each has a port that is free.
const FREE: &str = "127.0.0.1:FREE";

type Probe = for<'s> fn(&'s mut Scene, &'s str) -> LocalBoxFuture<'s, ()>;

/// How a setting is seen to act.
#[derive(Clone, Copy)]
enum Seen {
    /// By a server over SQLite with all settings of this kind.
    Limits(Probe),
    /// By a server whose connections end soon.
    Aging(Probe),
    /// By a server over Postgres.
    Postgres(Probe),
    /// By the program, which is run with it and without it.
    Program(fn(&str)),
    /// By a test: its file, its name, and the word by which the test knows the setting.
    Elsewhere(&'static str, &'static str, &'static str),
}

/// A setting, a value that is not its default, and what the value does.
struct Row {
    setting: &'static str,
    value: &'static str,
    does: &'static str,
    seen: Seen,
}

const fn row(setting: &'static str, value: &'static str, does: &'static str, seen: Seen) -> Row {
    Row { setting, value, does, seen }
}

/// Functions that look at a setting whose value they get.
macro_rules! probes {
    ($($(#[$doc:meta])* $name:ident($scene:ident, $value:ident) $body:block)*) => {
        $($(#[$doc])* #[allow(unused_variables, reason = "some settings are seen without the scene")]
        pub(super) fn $name<'s>(
            $scene: &'s mut super::Scene,
            $value: &'s str,
        ) -> futures_util::future::LocalBoxFuture<'s, ()> {
            Box::pin(async move $body)
        })*
    };
}
use probes;

use Seen::{Aging, Elsewhere, Limits, Postgres, Program};

/// Starts a server over a database with all settings of one kind, and looks at each of them.
async fn all_act(
    rows: impl IntoIterator<Item = (&'static Row, Probe)>,
    database: Option<String>,
    url: Option<&str>,
) {
    let rows: Vec<_> = rows.into_iter().collect();
    let folder = tempfile::tempdir().unwrap();
    let value = |row: &Row| row.value.replace("FREE", &free_port().to_string());
    let mut values: BTreeMap<&'static str, String> =
        rows.iter().map(|(row, _)| (row.setting, value(row))).collect();
    values.entry("observe_listen").or_insert_with(|| format!("127.0.0.1:{}", free_port()));
    let flag = |(name, value): (&&str, &String)| format!("--{}={value}", name.replace('_', "-"));
    // The server's own address is chosen with it.
    let flags: Vec<String> = values.iter().filter(|(name, _)| **name != "listen").map(flag).collect();
    let mut settings: Vec<&str> = flags.iter().map(String::as_str).collect();
    if values.contains_key("http_listen") {
        settings.insert(0, "--http-listen");
        settings.retain(|flag| !flag.starts_with("--http-listen="));
        settings.insert(1, &values["http_listen"]);
    }
    let log = Stdio::from(std::fs::File::create(folder.path().join("log")).unwrap());
    let lite = sqlite(folder.path());
    let server = Server::with(Command::new(BINARY), url.unwrap_or(&lite), &settings, log).await;
    let client = server.client().await;
    let mut scene = Scene { server, client, values: values.clone(), folder, database };
    for (row, probe) in rows {
        println!("{}: {}", row.setting, row.does);
        probe(&mut scene, values.get(row.setting).unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_limits_act() {
    let rows =
        ROWS.iter().filter_map(|row| if let Limits(probe) = row.seen { Some((row, probe)) } else { None });
    all_act(rows, None, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_the_age_of_connections_act() {
    let rows =
        ROWS.iter().filter_map(|row| if let Aging(probe) = row.seen { Some((row, probe)) } else { None });
    all_act(rows, None, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_a_server_over_postgres_act() {
    let database = crate::harness::postgres::database().await;
    let url = crate::harness::postgres::shared().url(&database);
    let rows =
        ROWS.iter().filter_map(|row| if let Postgres(probe) = row.seen { Some((row, probe)) } else { None });
    all_act(rows, Some(database), Some(&url)).await;
}

/// The settings and their defaults, as the page shows them.
fn catalogue() -> BTreeMap<String, String> {
    let page = read("docs/configuration.md");
    let table =
        page.split_once("<!-- printed: settings -->").unwrap().1.split_once("<!-- end -->").unwrap().0;
    let rows = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split(" | ").collect::<Vec<_>>());
    rows.map(|row| (row[0].trim_matches(['|', ' ', '`']).to_owned(), row[1].to_owned())).collect()
}

#[test]
fn each_setting_has_a_row_and_another_value_than_its_default() {
    let catalogue = catalogue();
    assert!(catalogue.len() > 60, "the page was read: {catalogue:?}");
    let rows: BTreeSet<String> = ROWS.iter().map(|row| row.setting.to_owned()).collect();
    assert_eq!(rows, catalogue.keys().cloned().collect(), "each setting has a row");
    for Row { setting, value, does, seen } in &ROWS {
        assert_ne!(*value, catalogue[*setting], "{setting}: {does}");
        match seen {
            Program(looks) => looks(value),
            Elsewhere(file, test, word) => {
                let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
                let there = text.contains(&format!("fn {test}(")) && text.contains(word);
                assert!(there, "{setting}: {file} has no test {test} with {word}");
            }
            Limits(_) | Aging(_) | Postgres(_) => {}
        }
    }
}
