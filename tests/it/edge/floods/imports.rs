//! Imports by the hundred that are begun and send nothing, each on a connection of its own.

use std::time::Duration;

use futures_util::stream;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::{ImportEntriesRequest, RedriveEntriesRequest};

use super::tenants::{Deaf, Tenants};
use super::{SMALL, beside};
use crate::bulk::imports::{part, row};
use crate::bulk::redrive;
use crate::harness::timer::within;
use crate::identity::by;
use crate::proof::run::Run;

const IMPORT: &str = "idempotency.ledger.v1.AdminService/ImportEntries";
const PRINCIPALS: usize = 40;
const SOON: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_imports_take_no_place_from_others() {
    let run = Run::new("floods", SMALL);
    let tenants = Tenants::start(PRINCIPALS, "10s", &[]).await;
    let (edge, connections) = (&tenants.edge, run.size.min(2_000));
    let flood = async {
        let mut open = Vec::new();
        for token in tenants.hostile.iter().cycle().take(connections as usize) {
            let mut deaf = Deaf::connect(edge, 65_535).await;
            let asked = deaf.ask(IMPORT, token, Vec::new(), false).await;
            open.push((deaf, asked));
        }
        let mut admin = AdminServiceClient::new(tenants.healthy.way.connect().await.unwrap());
        let token = &tenants.healthy.tokens[0];
        for number in 0..20 {
            let name = format!("import-{number}");
            let mut row = row(&name);
            row.key.as_mut().unwrap().consumer = "healthy".into();
            let request = by(token, stream::iter([ImportEntriesRequest { ..part(&name, vec![row]) }]));
            let imported =
                async { admin.import_entries(request).await.unwrap().into_inner().message().await };
            let told = within(SOON, "an import", imported).await.unwrap().unwrap();
            assert_eq!(told.stored, 1, "{told:?}");
            let mut request = RedriveEntriesRequest { dry_run: true, ..redrive(&name) };
            request.filter.as_mut().unwrap().consumer = "healthy".into();
            let redriven = async {
                admin.redrive_entries(by(token, request)).await.unwrap().into_inner().message().await
            };
            within(SOON, "a dry run", redriven).await.unwrap();
        }
        open.len()
    };
    let (connections, beside) = beside(&run, edge, &tenants.healthy, flood).await;
    let what =
        format!("{connections} connections with an import of {PRINCIPALS} principals that sends nothing");
    beside.told(&run, &what, connections as u64 / 8);
}
