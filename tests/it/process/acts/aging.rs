//! Connections that are idle, or old.

use std::time::Duration;

use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{import, probes};
use crate::edge::{PREFACE, SETTINGS};
use crate::harness::details::refusal;

const CLOSED: &str = "connections_closed_total";

probes! {
    ends_idle_ones(scene, _value) {
        let mut stream = TcpStream::connect(&scene.server.address).await.unwrap();
        stream.write_all(&[PREFACE, SETTINGS].concat()).await.unwrap();
        scene.reaches(&format!("{CLOSED}{{why=\"idle\"}}"), 1.0).await;
    }

    /// A connection with an open call is not idle.
    ends_old_ones(scene, _value) {
        let mut admin = AdminServiceClient::new(scene.server.channel().await.unwrap());
        let open = import(&mut admin, 1).await;
        scene.reaches(&format!("{CLOSED}{{why=\"age\"}}"), 1.0).await;
        drop(open);
    }

    ends_imports(scene, _value) {
        let mut admin = AdminServiceClient::new(scene.server.channel().await.unwrap());
        let (_more, mut stored) = import(&mut admin, 2).await.unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(60), stored.message()).await;
        let status = ended.expect("the import ends with its connection").unwrap_err();
        assert_eq!(refusal(&status).reason, "DRAINING", "{status:?}");
    }
}
