//! What must have happened before a call is refused.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use idempotency_ledger::domain::Span;
use idempotency_ledger::proto;

use super::calls::opens_an_import;
use super::scene::Scene;
use crate::harness::details::key;
use crate::harness::server::{START, replica};
use crate::inbox::message;
use crate::replays::{closes, creates};
use crate::unreadable::newer;

/// Preparations, each with what it does to a scene.
macro_rules! preparations {
    ($($(#[$doc:meta])* $name:ident($scene:ident) $body:block)*) => {
        $($(#[$doc])* pub(super) fn $name(mut $scene: Scene) -> BoxFuture<'static, Scene> {
            async move { $body; $scene }.boxed()
        })*
    };
}

preparations! {
    held(scene) {
        scene.takes().await;
    }

    held_for_long(scene) {
        scene.takes().await;
        scene.server.advance(Span::from_secs(1_000)).await;
    }

    started(scene) {
        scene.takes().await;
        let request = proto::RenewRequest {
            key: key("c", "1"), token: scene.token, effect_started: true, ..Default::default()
        };
        scene.server.client.renew(scene.by(request)).await.unwrap();
    }

    completed(scene) {
        scene.takes().await;
        let request =
            proto::CompleteRequest { key: key("c", "1"), token: scene.token, ..Default::default() };
        scene.server.client.complete(scene.by(request)).await.unwrap();
    }

    /// The token is that of the first holder.
    taken_over(scene) {
        scene.takes().await;
        let first = scene.token;
        scene.server.advance(Span::from_secs(60)).await;
        scene.takes().await;
        scene.token = first;
    }

    /// As many imports as there is room for.
    full_of_imports(scene) {
        let mut number = 0;
        while let Ok(import) = opens_an_import(&mut scene, number).await {
            scene.held.push(import);
            number += 1;
            assert!(number < 20, "there is room for 20 imports");
        }
    }

    /// A server reads the size of the backlog when it starts to store.
    full_backlog(scene) {
        scene.server.client.store(scene.by(message("first"))).await.unwrap();
        scene = scene.served_by_another().await;
    }

    clock_behind(scene) {
        scene.takes().await;
        scene.server.at.set_clock(START - Span::from_secs(1)).await;
    }

    /// The mark of the clock is set by heartbeats; those of a clock that jumps do not move it.
    clock_ahead(scene) {
        scene.takes().await;
        scene.server.at.session().await.upkeep().write_heartbeat(&replica(1)).await.unwrap();
        scene.server.at.set_clock(START + Span::from_days(368)).await;
        scene.server.at.session().await.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    }

    another_key(scene) {
        scene.takes().await;
        scene.server.at.execute("UPDATE @entries SET id = 'another' WHERE id = '1'").await;
    }

    unreadable_entry(scene) {
        scene.takes().await;
        scene.server.at.execute("UPDATE @entries SET state = 77 WHERE id = '1'").await;
    }

    unreadable_policy(scene) {
        newer(&scene.server.at, "c", 1, r#"{"quorum":3}"#).await;
        let request = proto::GetPolicyRequest { consumer: "c".into() };
        scene.server.admin.get_policy(scene.by(request)).await.unwrap();
    }

    deleted_policy(scene) {
        let policy = Some(proto::Policy { disabled: Some(true), ..Default::default() });
        let request =
            proto::SetPolicyRequest { consumer: "c".into(), request_id: "set".into(), reason: "a test".into(), policy, ..Default::default() };
        scene.server.admin.set_policy(scene.by(request)).await.unwrap();
        let request = proto::DeletePolicyRequest {
            consumer: "c".into(), request_id: "delete".into(), expected_version: 1, reason: "a test".into(),
        };
        scene.server.admin.delete_policy(scene.by(request)).await.unwrap();
    }

    /// The policy has forbidden replays since the run was created.
    forbidden_run(scene) {
        scene.server.admin.create_replay_run(scene.by(creates("r"))).await.unwrap();
        let policy = Some(proto::Policy { replay: proto::ReplayMode::Forbid.into(), ..Default::default() });
        let request =
            proto::SetPolicyRequest { consumer: "c".into(), request_id: "set".into(), reason: "a test".into(), policy, ..Default::default() };
        scene.server.admin.set_policy(scene.by(request)).await.unwrap();
    }

    closed_run(scene) {
        scene.server.admin.create_replay_run(scene.by(creates("r"))).await.unwrap();
        scene.server.admin.close_replay_run(scene.by(closes("r"))).await.unwrap();
    }
}
