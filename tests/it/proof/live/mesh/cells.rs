//! Two cells behind one Envoy: the shipped file with the virtual host of docs/scaling.md and a second cluster. The host name in a
//! call says which ledger answers it.

use std::net::SocketAddr;
use std::time::Duration;

use idempotency_ledger::proto::claim_response::Verdict;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tonic::transport::Endpoint;

use super::SOON;
use super::envoy::Envoy;
use crate::docs::read;
use crate::harness::details::claim;
use crate::harness::server::{Kind, TestServer};

const PAGE: &str = "docs/scaling.md";
const FIRST_HOST: &str = "                    - name: ledger\n";
const CLUSTERS: &str = "  clusters:\n    - name: ledger\n";
const CALL: Duration = Duration::from_secs(10);

/// The configuration with the second cell: the page's virtual host, and a cluster like the first one with one replica.
fn with_cell(text: &str, replicas: &[SocketAddr], cell: SocketAddr) -> String {
    let page = read(PAGE);
    let host = page.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0;
    let (routes, cluster) = text.split_once(CLUSTERS).unwrap();
    assert_eq!(routes.matches(FIRST_HOST).count(), 1);
    let mut second = cluster.replace("cluster_name: ledger", "cluster_name: ledger-2");
    let address = |of: &SocketAddr| format!("address: {}, port_value: {}", of.ip(), of.port());
    for replica in replicas {
        second = second.replace(&address(replica), &address(&cell));
    }
    let routes = routes.replace(FIRST_HOST, &format!("{host}{FIRST_HOST}"));
    format!("{routes}{CLUSTERS}{cluster}    - name: ledger-2\n{second}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs Envoy: `tests/run mesh`"]
async fn host_name_of_a_call_chooses_its_cell() {
    let first = TestServer::start(Kind::Sqlite).await;
    let second = TestServer::start(Kind::Sqlite).await;
    let folder = tempfile::tempdir().unwrap();
    let replicas = [first.address(); 3];
    let cell = second.address();
    let envoy = Envoy::start_changed(folder.path(), &replicas, |text| with_cell(&text, &replicas, cell));
    envoy.sees(&[first.address(), cell], true, SOON).await;
    let client = |name: &str| {
        let endpoint = Endpoint::from_shared(format!("http://{}", envoy.address)).unwrap();
        let origin = format!("http://{name}").parse().unwrap();
        LedgerServiceClient::new(endpoint.origin(origin).timeout(CALL).connect_lazy())
    };
    for (name, verdict) in [
        ("ledger.example", "acquired"),
        ("billing.ledger.example", "acquired"),
        ("billing.ledger.example:50051", "in progress"),
        ("other.example", "in progress"),
    ] {
        let answer = client(name).claim(claim("billing", "1")).await.unwrap().into_inner();
        let said = match answer.verdict.unwrap() {
            Verdict::Acquired(_) => "acquired",
            Verdict::InProgress(_) => "in progress",
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(said, verdict, "{name}");
    }
    drop(envoy);
    first.stop().await;
    second.stop().await;
}
