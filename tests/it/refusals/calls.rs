//! Calls that are refused.

use std::any::Any;

use futures_util::future::LocalBoxFuture;
use futures_util::{StreamExt as _, stream};
use idempotency_ledger::proto;
use tonic::Status;

use super::scene::{Scene, reason, waiting_claim};
use crate::door::client::{Http1, request};
use crate::harness::details::{key, refusal};
use crate::harness::faulty::{Inject, POISON};
use crate::harness::raw::{answers, channel};
use crate::inbox::message;
use crate::replays::{in_run, seconds};
use crate::waiting::{ended, until, until_waiting};

/// Calls, each with how it meets its refusal.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($scene:ident, $number:ident) $body:block)*) => {
        $($(#[$doc])* pub(super) fn $name(
            $scene: &mut Scene,
            $number: usize,
        ) -> LocalBoxFuture<'_, String> {
            Box::pin(async move $body)
        })*
    };
}

calls! {
    claims(scene, _number) {
        reason(scene.server.client.claim(scene.by(waiting_claim("c", "1"))).await)
    }

    claims_new_key(scene, number) {
        let request = scene.by(waiting_claim("c", &format!("new {number}")));
        reason(scene.server.client.claim(request).await)
    }

    claims_without_consumer(scene, _number) {
        reason(scene.server.client.claim(scene.by(waiting_claim("", "1"))).await)
    }

    claims_without_a_credential(scene, _number) {
        reason(scene.server.client.claim(waiting_claim("c", "1")).await)
    }

    claims_without_a_right(scene, _number) {
        let request = scene.by_holder("other", waiting_claim("c", "1"));
        reason(scene.server.client.claim(request).await)
    }

    claims_too_many(scene, _number) {
        let requests = vec![waiting_claim("c", "1"); 1_001];
        let request = scene.by(proto::BatchClaimRequest { requests });
        reason(scene.server.client.batch_claim(request).await)
    }

    /// Time gives a claim now and then.
    claims_until_there_are_too_many(scene, number) {
        for repeat in 0..20 {
            let request = scene.by(waiting_claim("c", &format!("{number} {repeat}")));
            if let Err(status) = scene.server.client.claim(request).await {
                return refusal(&status).reason;
            }
        }
        "none was too many".to_owned()
    }

    claims_of_a_store_that_refuses(scene, number) {
        scene.plan.next([Inject::Unavailable]);
        let request = scene.by(waiting_claim("c", &number.to_string()));
        reason(scene.server.client.claim(request).await)
    }

    /// The repeat of a lost request is lost, too.
    claims_without_an_outcome(scene, number) {
        scene.plan.next([Inject::LostRequest, Inject::LostAnswer]);
        let request = scene.by(waiting_claim("c", &number.to_string()));
        reason(scene.server.client.claim(request).await)
    }

    claims_poison(scene, number) {
        let request = scene.by(waiting_claim("c", &format!("{POISON} {number}")));
        reason(scene.server.client.claim(request).await)
    }

    /// By HTTP: the library of gRPC ends the call itself. The store writes nothing before the deadline.
    claims_too_late(scene, number) {
        let body = format!(r#"{{"key":{{"consumer":"c","source":"tests","id":"{number}"}}}}"#);
        let bearer = scene.bearer("all");
        let headers = [("authorization", bearer.as_str()), ("connect-timeout-ms", "100")];
        let bytes = request("/idempotency.ledger.v1.LedgerService/Claim", &headers, body.as_bytes());
        scene.plan.close();
        let mut http = Http1::to(scene.server.http_address()).await;
        let reason = http.ask(&bytes).await.reason();
        scene.plan.open();
        reason
    }

    sends_half(scene, number) {
        let body = format!(r#"{{"key":{{"consumer":"c","source":"tests","id":"{number}"}}}}"#);
        let bearer = scene.bearer("all");
        let headers = [("authorization", bearer.as_str())];
        let bytes = request("/idempotency.ledger.v1.LedgerService/Claim", &headers, body.as_bytes());
        Http1::to(scene.server.http_address()).await.ask(&bytes[..bytes.len() - 10]).await.reason()
    }

    /// No client reads the reason of a call that it has reset: the server counts that the wait ended with its client.
    waits_and_goes_away(scene, number) {
        let (mut client, request) = (scene.server.client.clone(), scene.by(waiting_claim("c", "1")));
        let call = tokio::spawn(async move { client.claim(request).await });
        until_waiting(&scene.server, 1).await;
        call.abort();
        until("the wait ends with its client", || ended(&scene.server, "gone") == number + 1).await;
        "CANCELLED".to_owned()
    }

    releases(scene, _number) {
        let request = proto::ReleaseRequest { key: key("c", "1"), token: scene.token, ..Default::default() };
        reason(scene.server.client.release(scene.by(request)).await)
    }

    renews(scene, _number) {
        let request = proto::RenewRequest { key: key("c", "1"), token: scene.token, ..Default::default() };
        reason(scene.server.client.renew(scene.by(request)).await)
    }

    completes_by_a_later_token(scene, number) {
        let token = scene.token + 1_000 + i64::try_from(number).unwrap();
        let request = proto::CompleteRequest { key: key("c", "1"), token, ..Default::default() };
        reason(scene.server.client.complete(scene.by(request)).await)
    }

    completes_with_a_large_result(scene, _number) {
        let request =
            proto::CompleteRequest { key: key("c", "1"), token: 1, result: vec![0; 5 << 20].into(), ..Default::default() };
        reason(scene.server.client.complete(scene.by(request)).await)
    }

    replays(scene, _number) {
        let request = proto::ClaimRequest { key: in_run("r", "1"), ..waiting_claim("c", "1") };
        reason(scene.server.client.claim(scene.by(request)).await)
    }

    stores(scene, number) {
        reason(scene.server.client.store(scene.by(message(&number.to_string()))).await)
    }

    imports(scene, number) {
        match opens_an_import(scene, number).await {
            Ok(import) => {
                scene.held.push(import);
                "there was room".to_owned()
            }
            Err(status) => refusal(&status).reason,
        }
    }

    /// On its own connection, which the server ends.
    imports_until_the_end(scene, number) {
        let mut admin = proto::admin_service_client::AdminServiceClient::new(channel(&scene.server).await);
        let endless = stream::iter([imported(number)]).chain(stream::pending());
        let mut stored = admin.import_entries(scene.by(endless)).await.unwrap().into_inner();
        loop {
            match stored.message().await {
                Ok(part) => drop(part.expect("a reason")),
                Err(status) => return refusal(&status).reason,
            }
        }
    }

    gets_an_absent_entry(scene, number) {
        let request = proto::GetEntryRequest { key: key("c", &number.to_string()), ..Default::default() };
        reason(scene.server.admin.get_entry(scene.by(request)).await)
    }

    deletes(scene, number) {
        delete(scene, number, false).await
    }

    deletes_by_force(scene, number) {
        delete(scene, number, true).await
    }

    sets_a_short_retention(scene, number) {
        let policy = proto::Policy { max_redelivery_window: seconds(14 * 86_400), ..Default::default() };
        reason(scene.server.admin.set_policy(scene.by(set(number, 0, policy))).await)
    }

    sets_another_version(scene, number) {
        let policy = proto::Policy { lease: seconds(60), ..Default::default() };
        reason(scene.server.admin.set_policy(scene.by(set(number, 4, policy))).await)
    }

    deletes_the_policy(scene, number) {
        let request = proto::DeletePolicyRequest {
            consumer: "c".into(),
            request_id: number.to_string(),
            expected_version: 2,
            reason: "a test".into(),
        };
        reason(scene.server.admin.delete_policy(scene.by(request)).await)
    }

    calls_no_method(scene, _number) {
        let channel = channel(&scene.server).await;
        let answer = answers(&channel, "LedgerService/Reclaim", scene.by(Vec::new())).await;
        refusal(&answer.unwrap_err()).reason
    }
}

async fn delete(scene: &mut Scene, number: usize, force: bool) -> String {
    let request = proto::DeleteEntryRequest {
        key: key("c", "1"),
        request_id: number.to_string(),
        expected_version: scene.version().await,
        reason: "a test".into(),
        force,
        ..Default::default()
    };
    reason(scene.server.admin.delete_entry(scene.by(request)).await)
}

fn set(number: usize, expected_version: i32, policy: proto::Policy) -> proto::SetPolicyRequest {
    proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: number.to_string(),
        expected_version,
        reason: "a test".into(),
        policy: Some(policy),
        ..Default::default()
    }
}

/// The first message of an import.
fn imported(number: usize) -> proto::ImportEntriesRequest {
    proto::ImportEntriesRequest {
        operation_id: format!("import {number}"),
        reason: "a test".into(),
        entries: vec![proto::ImportedEntry {
            key: key("imported", &number.to_string()),
            ..Default::default()
        }],
    }
}

/// An import that has stored its first message, and waits for the next one until it is dropped.
pub(super) async fn opens_an_import(scene: &mut Scene, number: usize) -> Result<Box<dyn Any + Send>, Status> {
    let open = stream::iter([imported(number)]).chain(stream::pending());
    let mut stored = scene.server.admin.import_entries(scene.by(open)).await?.into_inner();
    stored.message().await?;
    Ok(Box::new(stored))
}
