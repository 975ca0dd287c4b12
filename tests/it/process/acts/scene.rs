//! A server with many settings, and what its clients see of it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::{self, ImportEntriesResponse};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::PATIENCE;
use crate::harness::details::key;
use crate::observe::series;
use crate::process::Server;

/// A server with many settings, and its clients.
pub(super) struct Scene {
    pub(super) server: Server,
    pub(super) client: LedgerServiceClient<Channel>,
    /// The values of the settings, as they were given.
    pub(super) values: BTreeMap<&'static str, String>,
    pub(super) folder: tempfile::TempDir,
    /// Its database, over Postgres.
    pub(super) database: Option<String>,
}

impl Scene {
    /// The value of a setting that an address has.
    pub(super) fn at(&self, setting: &str) -> &str {
        &self.values[setting]
    }

    /// A series of its metrics; 0 where it is not there.
    pub(super) async fn metric(&self, name: &str) -> f64 {
        let name = format!("idempotency_ledger_{name}");
        series(self.at("observe_listen")).await.get(&name).copied().unwrap_or(0.0)
    }

    /// Waits until a series has such a value. It polls: no event reports a change of a metric.
    pub(super) async fn becomes(&self, name: &str, is: impl Fn(f64) -> bool) {
        let since = Instant::now();
        loop {
            let now = self.metric(name).await;
            if is(now) {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{name} stays {now}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(super) async fn reaches(&self, name: &str, least: f64) {
        self.becomes(name, |now| now >= least).await;
    }

    pub(super) fn log(&self) -> String {
        crate::harness::log_file::settled(&self.folder.path().join("log"))
    }
}

/// What the server says of a call that it refuses.
pub(super) fn refused<T>(answer: Result<T, Status>, says: &str) {
    let status = answer.err().unwrap_or_else(|| panic!("not refused: {says}"));
    assert!(status.message().contains(says), "{says}: {status:?}");
}

/// An import that has stored its first message, and waits for the next one until the sender is dropped.
pub(super) async fn import(
    admin: &mut AdminServiceClient<Channel>,
    number: usize,
) -> Result<(tokio::sync::oneshot::Sender<()>, Streaming<ImportEntriesResponse>), Status> {
    let first = proto::ImportEntriesRequest {
        operation_id: format!("import {number}"),
        reason: "a setting".into(),
        entries: vec![proto::ImportedEntry {
            key: key("c", &format!("import {number}")),
            ..Default::default()
        }],
    };
    let (more, rest) = tokio::sync::oneshot::channel::<()>();
    let messages = stream::iter([first]).chain(stream::once(rest).filter_map(|_| async { None }));
    let mut stored = admin.import_entries(messages).await?.into_inner();
    stored.message().await?;
    Ok((more, stored))
}
