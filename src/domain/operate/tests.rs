use super::*;
use crate::{Body, Key, Policy, Span};

/// A Store of the key that has begun may still insert a lower version than the one that is deleted.
#[test]
fn stored_entry_is_not_deleted_within_a_minute_of_its_change() {
    let now = StoreTime(1_780_000_000_000_000);
    for (body, age, refused) in [
        (Some(Body::Kept), 59_999_999, true),
        (Some(Body::Kept), 60_000_000, false),
        (Some(Body::Erased), 59_999_999, true),
        (None, 0, false),
    ] {
        let mut entry = Entry::blank(&Key::new("c", "s", "1"), &Policy::default(), StoreTime(1));
        (entry.body, entry.updated_at) = (body, now - Span(age));
        let clock = Clock { now, for_tokens: now.micros(), fault: None };
        let rejection = not_forgettable(&entry, clock);
        assert_eq!(rejection.map(|one| one.reason), refused.then_some(Reason::TooRecent), "{body:?} {age}");
    }
}
