//! How long a call rested.

use std::time::Instant;

use super::*;
use crate::accounts::for_tests;

/// The time of a call without its waits is compared with `slow_call`, and is what the histogram of calls counts.
#[test]
fn rested_is_the_time_of_all_waits() {
    const FIRST_WAIT: Duration = Duration::from_hours(1);
    let began = Instant::now();
    let connection = for_tests::connection();
    let open = OpenCall::begin(&connection);
    let call = CallAccount::admit(&connection, open, &CallOwner::Stranger, None, 0).expect("it passes");
    assert_eq!(call.rested(), Duration::ZERO);
    call.rest();
    call.resume().expect("it finds space");
    // As if an hour had passed in between.
    call.resting.before.store(FIRST_WAIT.as_nanos().try_into().expect("short"), Relaxed);
    let mut least = FIRST_WAIT;
    for wait in 2..=4 {
        call.rest();
        let during = call.rested();
        call.resume().expect("it finds space");
        let after = call.rested();
        assert!(least <= during && during <= after, "wait {wait}: {least:?}, {during:?}, {after:?}");
        least = after;
    }
    let most = FIRST_WAIT + began.elapsed();
    assert!(least <= most, "{least:?} of at most {most:?}");
}
