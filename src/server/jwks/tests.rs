//! Which keys are in force, and when.

use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::identity::jwt::tests::signer::Signer;

const URL: &str = "https://127.0.0.1:1/keys";

fn issuer(name: &str, keys: &Arc<Keys>) -> Issuer {
    let iss = format!("https://{name}.example");
    Issuer::new(name, &iss, &["ledger".to_owned()], Arc::clone(keys)).unwrap()
}

fn keys() -> Keys {
    Keys::of_jwks(Signer::new().jwks().as_bytes()).unwrap()
}

/// An issuer with fixed keys, and one with keys that are fetched.
fn two(times: Times) -> (Issuers, Refresher, Arc<Keys>) {
    let fixed = Arc::new(keys());
    let source = Source::new(URL, None, None).unwrap();
    let all = vec![(issuer("a", &fixed), None), (issuer("b", &Arc::new(Keys::none())), Some(source))];
    let (issuers, mut refreshers) = refreshed(all, times);
    assert_eq!(refreshers.len(), 1);
    (issuers, refreshers.remove(0), fixed)
}

/// Runs with these results of fetches, one after the other; the last one repeats.
fn run(refresher: Refresher, results: Vec<Result<Keys, String>>) -> tokio::task::JoinHandle<()> {
    let results = Mutex::new(results);
    tokio::spawn(async move {
        let next = || {
            let mut results = results.lock().unwrap();
            let result = if results.len() > 1 { results.remove(0) } else { results[0].clone() };
            async { result }
        };
        refresher.run_with(next).await;
    })
}

/// The next keys in force, and the time until then.
async fn next(issuers: &mut Issuers, fixed: &Arc<Keys>) -> (Arc<Keys>, Duration) {
    let start = Instant::now();
    tokio::time::timeout(Duration::from_secs(30), issuers.now.changed()).await.unwrap().unwrap();
    let now = issuers.now();
    issuers.now.mark_unchanged();
    assert!(Arc::ptr_eq(&now[0].keys, fixed), "keys of another issuer changed");
    assert_eq!((&*now[0].name, &*now[1].name), ("a", "b"));
    (Arc::clone(&now[1].keys), start.elapsed())
}

#[tokio::test]
async fn run_publishes_keys_after_fetch_and_refresh_request() {
    let (mut issuers, refresher, fixed) = two(Times::DEFAULT);
    let (first, second) = (keys(), keys());
    let away = || Err("away".to_owned());
    let running = run(refresher, vec![away(), Ok(first.clone()), Ok(second.clone()), Ok(keys())]);

    let (fetched, waited) = next(&mut issuers, &fixed).await;
    assert_eq!(*fetched, first);
    assert!(waited > Duration::from_millis(800), "tried again after {waited:?}");

    issuers.key_refresh().request(0);
    issuers.key_refresh().request(2);
    issuers.key_refresh().request(1);
    issuers.key_refresh().request(1);
    let (fetched, waited) = next(&mut issuers, &fixed).await;
    assert_eq!(*fetched, second);
    assert!(waited < Duration::from_secs(20), "only after {waited:?}");

    issuers.key_refresh().request(1);
    let again = tokio::time::timeout(Duration::from_millis(300), issuers.now.changed()).await;
    assert!(again.is_err(), "fetched twice in a minute for unknown keys");
    running.abort();
}

#[tokio::test]
async fn run_failed_fetches_keep_last_keys_for_a_while() {
    let times = Times { refresh: Duration::from_millis(100), keep: Duration::from_millis(450) };
    let (mut issuers, refresher, fixed) = two(times);
    let good = keys();
    let results = vec![Ok(good.clone()), Err("away".to_owned()), Ok(good.clone()), Err("away".to_owned())];
    let running = run(refresher, results);
    assert_eq!(*next(&mut issuers, &fixed).await.0, good);
    // The same keys again are not a change.
    let (dropped, waited) = next(&mut issuers, &fixed).await;
    assert_eq!(*dropped, Keys::none());
    assert!(waited > Duration::from_millis(300), "dropped after {waited:?}");
    running.abort();
}

#[tokio::test]
async fn unreachable_issuer_does_not_block_others() {
    let (issuers, refresher, fixed) = two(Times::DEFAULT);
    let running = tokio::spawn(async move { refresher.run().await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!running.is_finished());
    let now = issuers.now();
    assert!(Arc::ptr_eq(&now[0].keys, &fixed));
    assert_eq!(*now[1].keys, Keys::none());
    running.abort();
}
