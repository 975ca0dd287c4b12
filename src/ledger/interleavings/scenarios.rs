//! The scenarios. Each ends with `finish`: the ledger stops, and what the store shows is checked.

use std::sync::Arc;

use shuttle::future::spawn;
use shuttle::rand::{Rng as _, thread_rng};

use super::disk::Manners;
use super::explore;
use super::rt::wander;
use super::world::{Call, World, key, token};
use crate::domain::Answer;

const WELL: Manners = Manners { sessions: 2, one_in: 0, faults: &[], expiry_one_in: 0 };

/// Claims some keys, together, and settles what it was granted, together; twice.
async fn caller(world: World, ids: &[&str]) -> Vec<Answer> {
    let mut all = Vec::new();
    for _ in 0..2 {
        let count = thread_rng().gen_range(1..=3);
        let claims: Vec<Call> =
            (0..count).map(|_| world.claim(&key(ids[thread_rng().gen_range(0..ids.len())]))).collect();
        let answers = world.submit(&claims).await;
        wander(3).await;
        let granted = claims.iter().zip(&answers);
        let settlements: Vec<Call> =
            granted.filter_map(|(claim, answer)| Some(world.settle(&claim.key, token(answer)?))).collect();
        all.extend(answers);
        if !settlements.is_empty() {
            all.extend(world.submit(&settlements).await);
        }
    }
    all
}

#[test]
fn every_call_is_answered_once_with_what_was_committed() {
    let must = [
        "acquired",
        "completed",
        "in progress",
        "races lost",
        "statements with several rows",
        "statements at the same time",
        "leases ended",
        "LeaseLost",
    ];
    explore("every_call_is_answered_once_with_what_was_committed", &must, async |tally| {
        let manners = Manners { expiry_one_in: 16, ..WELL };
        let world = World::new(Arc::clone(&tally), manners, 64, thread_rng().gen_range(1..=4));
        let callers: Vec<_> = (0..4).map(|_| spawn(caller(world.clone(), &["a", "b"]))).collect();
        for caller in callers {
            world.assert_calm(&caller.await.unwrap());
        }
        world.finish().await;
    });
}
