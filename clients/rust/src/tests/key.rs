use std::time::Duration;

use super::world::Script;
use crate::{Delivery, Error, Fingerprint, Key, Ledger, Steer};

#[test]
fn keys_beyond_their_bounds_are_at_fault() {
    let fault = |source: &str, id: &str| Key::of(source, id).fault().map(|fault| fault.field);
    assert_eq!(fault("s", "i"), None);
    assert_eq!(fault(&"s".repeat(256), &"é".repeat(256)), None);
    assert_eq!(fault("", "i"), Some("key.source"));
    assert_eq!(fault(&"s".repeat(257), "i"), Some("key.source"));
    for id in ["", &"é".repeat(257), "a\nb", "a\u{85}b", "\u{7f}"] {
        assert_eq!(fault("s", id), Some("key.id"), "{id:?}");
    }
    let event = Key::from_cloud_event(|name| (name == "source").then(|| "s".to_owned()));
    assert_eq!(event.fault().map(|fault| fault.field), Some("key.id"));
}

#[test]
fn replay_runs_and_digests_have_bounds() {
    assert_eq!(Key::of("s", "i").in_replay_run("2026-01_a.b").unwrap().replay_run, "2026-01_a.b");
    for run in ["a b", &"r".repeat(65), "é"] {
        assert_eq!(Key::of("s", "i").in_replay_run(run).unwrap_err().field, "key.replay_run");
    }
    for length in [0, 65] {
        assert_eq!(Fingerprint::from_digest(vec![1; length]).unwrap_err().field, "fingerprint");
    }
    assert!(Fingerprint::from_digest(vec![1; 64]).is_ok());
}

#[test]
fn options_beyond_their_bounds_name_their_field() {
    for (builder, field) in [
        (Ledger::builder(""), "key.consumer"),
        (Ledger::builder("x".repeat(129)), "key.consumer"),
        (Ledger::builder("p").owner("a\tb"), "owner"),
        (Ledger::builder("p").lease(Duration::from_millis(999)), "lease"),
        (Ledger::builder("p").lease(Duration::from_secs(86_401)), "lease"),
    ] {
        assert_eq!(builder.build().unwrap_err().field, field);
    }
}

#[tokio::test]
async fn wait_beyond_its_bound_is_refused_before_anything_is_sent() {
    let script = Script::of([]);
    let delivery = Delivery::of(Key::of("s", "i")).wait(Duration::from_secs(3601));
    let error = script.ledger().process(delivery, async |_| Ok::<(), Steer>(())).await.unwrap_err();
    assert!(matches!(error, Error::InvalidField(fault) if fault.field == "wait"));
    assert!(script.calls().is_empty());
}
