//! Places for imports and bulk redrives: principals that open streams and then send or read nothing take none from
//! others, in whichever number they come.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use futures_util::{Stream, StreamExt as _, stream};
use idempotency_ledger::identity::Guard;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::{ImportEntriesRequest, RedriveEntriesRequest};
use tonic::transport::Channel;
use tonic_types::StatusExt as _;

use super::imports::{part, row};
use super::{numbered, park, redrive};
use crate::harness::details::refusal;
use crate::harness::on_both_stores;
use crate::harness::raw::channel_to;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::harness::timer::within;
use crate::identity::{People, by};

on_both_stores!(
    silent_streams_take_no_place_from_others,
    slow_redrives_take_no_place_from_others,
    open_streams_of_one_principal_are_bounded,
);

type Admin = AdminServiceClient<Channel>;

const HOSTILE: [&str; 10] = ["h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9"];

struct Scene {
    server: TestServer,
    people: People,
}

impl Scene {
    /// With 30 parked entries of the consumer `c`.
    async fn new(kind: Kind) -> Scene {
        let hostile = HOSTILE.map(|name| (name, &[("c", "admin")][..]));
        let people = People::new(&[&hostile[..], &[("other", &[("c", "admin")])]].concat());
        let mut server = TestServer::start(kind).await;
        park(&mut server, numbered(0..30)).await;
        let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default() };
        let server = TestServer::on(server.stop().await, setup).await;
        Scene { server, people }
    }

    async fn admin(&self) -> Admin {
        AdminServiceClient::new(channel_to(&self.server.address().to_string()).await)
    }

    /// An import, a bulk redrive and a dry run of another principal, each within a second.
    async fn others_work(&self, name: &str) {
        let mut admin = self.admin().await;
        let second = Duration::from_secs(1);
        let import = by(self.people.token("other"), stream::iter([part(name, vec![row(name)])]));
        let imported = async { admin.import_entries(import).await.unwrap().into_inner().message().await };
        let stored = within(second, "an import", imported).await.unwrap().unwrap();
        assert_eq!(stored.stored, 1, "{stored:?}");
        for dry_run in [true, false] {
            let request = RedriveEntriesRequest { dry_run, maximum: 3, ..redrive(name) };
            let request = by(self.people.token("other"), request);
            let redriven = async {
                let answers = admin.redrive_entries(request).await.unwrap().into_inner();
                answers.map(|told| told.unwrap().redriven).collect::<Vec<_>>().await
            };
            let redriven = within(second, "a redrive", redriven).await;
            assert_eq!(redriven.last(), Some(&3), "dry run: {dry_run}");
        }
    }
}

fn silent() -> impl Stream<Item = ImportEntriesRequest> {
    stream::pending()
}

/// One stream of each of ten principals, and then twenty of each.
async fn silent_streams_take_no_place_from_others(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut open = Vec::new();
    for (name, streams) in [("few", 1), ("many", 19)] {
        for hostile in HOSTILE {
            let admin = scene.admin().await;
            let opened = (0..streams).map(|_| {
                let (mut admin, request) = (admin.clone(), by(scene.people.token(hostile), silent()));
                async move { admin.import_entries(request).await }
            });
            open.extend(try_join_all(opened).await.unwrap());
        }
        scene.others_work(name).await;
    }
    assert_eq!(open.len(), 200);
    drop(open);
    scene.server.stop().await;
}

/// Redrives that wait for their rate, and whose clients read nothing, dry runs among them.
async fn slow_redrives_take_no_place_from_others(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut open = Vec::new();
    for hostile in HOSTILE {
        let mut admin = scene.admin().await;
        for dry_run in [true, false] {
            let mut request = RedriveEntriesRequest { rate: 1, dry_run, ..redrive(hostile) };
            request.filter.as_mut().unwrap().id_prefix = "m02".into();
            open.push(admin.redrive_entries(by(scene.people.token(hostile), request)).await.unwrap());
        }
    }
    scene.others_work("others").await;
    drop(open);
    scene.server.stop().await;
}

async fn open_streams_of_one_principal_are_bounded(kind: Kind) {
    let scene = Scene::new(kind).await;
    let admin = scene.admin().await;
    let (end, ended) = tokio::sync::watch::channel(());
    let opened = (0..65).map(|_| {
        let mut ended = ended.clone();
        let until = async move { ended.changed().await };
        let request = by(scene.people.token("h0"), silent().take_until(Box::pin(until)));
        let mut admin = admin.clone();
        async move { admin.import_entries(request).await }
    });
    let (open, refused): (Vec<_>, Vec<_>) = join_all(opened).await.into_iter().partition(Result::is_ok);
    assert_eq!((open.len(), refused.len()), (64, 1));
    let status = refused[0].as_ref().unwrap_err();
    assert_eq!(refusal(status).reason, "OVERLOADED");
    assert!(status.get_error_details().retry_info().is_some(), "{status:?}");
    assert!(status.message().contains("64 imports and bulk redrives of this principal"), "{status:?}");
    scene.others_work("others").await;
    // Their room is free once the server has seen that they are gone.
    drop((open, end));
    let again = async {
        loop {
            match admin.clone().import_entries(by(scene.people.token("h0"), silent())).await {
                Ok(open) => return open,
                Err(refused) => assert_eq!(refusal(&refused).reason, "OVERLOADED"),
            }
            tokio::task::yield_now().await;
        }
    };
    drop(within(Duration::from_secs(10), "the room of streams that are gone", again).await);
    scene.server.stop().await;
}
