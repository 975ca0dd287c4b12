//! The filters for `jq` of docs/operations.md: each runs as it stands there, and names what JSON answers have.

use std::collections::HashSet;
use std::process::Command;

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto;
use prost::Message as _;
use prost_types::FileDescriptorSet;

use super::{BINARY, NO_CONFIG, ask, complete, in_doubt, park};
use crate::harness::server::{Kind, TestServer};

const PAGE: &str = include_str!("../../../docs/operations.md");

/// The documented commands with a filter, in their order.
fn documented() -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut within = false;
    for line in PAGE.lines() {
        if line.starts_with("```") {
            within = line == "```sh";
            continue;
        }
        let goes_on = commands.last().is_some_and(|command| command.ends_with(['|', '\\']));
        match commands.last_mut() {
            _ if !within => {}
            Some(command) if goes_on => {
                command.push('\n');
                command.push_str(line);
            }
            Some(_) | None => commands.push(line.to_owned()),
        }
    }
    commands.retain(|command| command.contains("jq "));
    commands
}

/// All names of fields in JSON, and all names of enum values.
fn published() -> (HashSet<String>, HashSet<String>) {
    let set = FileDescriptorSet::decode(proto::FILE_DESCRIPTOR_SET).unwrap();
    let (mut fields, mut values) = (HashSet::new(), HashSet::new());
    for file in &set.file {
        for message in &file.message_type {
            fields.extend(message.field.iter().map(|field| field.json_name().to_owned()));
        }
        for one in &file.enum_type {
            values.extend(one.value.iter().map(|value| value.name().to_owned()));
        }
    }
    (fields, values)
}

/// The program of a filter: what stands between its quotes.
fn program(command: &str) -> &str {
    command.split_once('\'').and_then(|(_, rest)| rest.rsplit_once('\'')).unwrap().0
}

#[test]
fn documented_filters_name_published_fields_and_values() {
    let (fields, values) = published();
    let commands = documented();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in &commands {
        let program = program(command);
        for (at, _) in program.match_indices('.') {
            let name: String =
                program[at + 1..].chars().take_while(|one| one.is_ascii_alphanumeric()).collect();
            assert!(name.is_empty() || fields.contains(&name), "{command}: .{name}");
        }
        for word in program
            .split('"')
            .filter(|word| word.starts_with("ENTRY_STATE_") || word.starts_with("PARK_CAUSE_"))
        {
            assert!(values.contains(word), "{command}: {word}");
        }
        // A bare word never matches: JSON has the whole name.
        for bare in ["\"PARKED\"", "\"COMPLETED\"", "\"IN_PROGRESS\"", "\"RECEIVED\""] {
            assert!(!program.contains(bare), "{command}: {bare}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documented_filters_find_what_is_there() {
    let has_jq = Command::new("jq").arg("--version").output().is_ok_and(|ran| ran.status.success());
    if !has_jq {
        // Their names are checked in any case.
        return;
    }
    let server = TestServer::start(Kind::Sqlite).await;
    let mut other = server.client.clone();
    for id in ["order-1", "order-2"] {
        let request = proto::ClaimRequest {
            key: crate::harness::details::key("payments", id),
            ..crate::harness::details::claim("payments", id)
        };
        let granted = other.claim(request).await.unwrap().into_inner();
        let token = crate::harness::details::acquired(&granted).token;
        let fail = proto::FailRequest {
            key: crate::harness::details::key("payments", id),
            token,
            kind: proto::FailureKind::Park.into(),
            error: if id == "order-1" { "timeout\nof 5 s".into() } else { String::new() },
            ..Default::default()
        };
        other.fail(fail).await.unwrap();
    }
    park(&server, "1", "x").await;
    in_doubt(&server, "2").await;
    complete(&server, "3").await;
    server.advance(Span::from_secs(10)).await;
    ask(&server, &["entries", "redrive", "c", "tests", "1", "--reason", "r"]).await.says(0, &[]);
    let mut found = Vec::new();
    for command in documented() {
        let line = format!(
            "idempotency-ledger() {{ \"$BINARY\" \"$@\" --endpoint {}; }}\nset -eu -o pipefail\n{command}",
            server.address()
        );
        let run = move || {
            let mut bash = Command::new("bash");
            bash.args(["-c", &line]).env("BINARY", BINARY).env("XDG_CONFIG_HOME", NO_CONFIG);
            super::ended(bash.output().unwrap())
        };
        let ran = tokio::task::spawn_blocking(run).await.unwrap();
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{command}: {ran:?}");
        found.push(ran.out.trim_end().to_owned());
    }
    assert_eq!(
        found,
        [
            "order-1",
            "c\npayments\npayments",
            "c\npayments",
            "1 c timeout\n1 c x\n1 payments -\n1 payments timeout",
            "PARKED > RECEIVED",
        ]
    );
    server.stop().await;
}
