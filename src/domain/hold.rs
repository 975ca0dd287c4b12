//! Holds: an operator stops new grants for all consumers, or for the consumers whose names begin with a prefix.
//! See docs/contract.md, section 8.

use super::reason::{Reason, Rejection};
use super::time::StoreTime;

/// The number of holds of prefixes that may be in force. The hold of all consumers is not counted: an
/// emergency stop always has a place.
const HOLDS_MAX: usize = 100;
/// The number of them that one principal may place, so that one tenant leaves places for others.
const OF_ONE_MAX: usize = 50;

/// A hold that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What the names of the held consumers begin with; empty: all consumers.
    pub prefix: String,
    /// When it was placed.
    pub created_at: StoreTime,
    /// The principal that placed it.
    pub actor: String,
    /// The reason that was stated.
    pub reason: String,
}

impl Hold {
    /// Whether the hold is in force for a consumer.
    #[must_use]
    pub fn covers(&self, consumer: &str) -> bool {
        consumer.starts_with(&self.prefix)
    }

    /// Whether a consumer can exist that this hold covers and whose name begins with `prefix`.
    #[must_use]
    pub fn meets(&self, prefix: &str) -> bool {
        prefix.starts_with(&self.prefix) || self.prefix.starts_with(prefix)
    }
}

/// The consumers that a hold covers, as text for people.
#[must_use]
pub fn held_consumers(prefix: &str) -> String {
    if prefix.is_empty() {
        "all consumers".to_owned()
    } else {
        format!("the consumers whose names begin with {prefix:?}")
    }
}

/// Whether `actor` may place a hold on `prefix` while these holds are in force.
///
/// # Errors
/// `STATE_NOT_ALLOWED`: the same hold is in force, or a bound is reached.
pub fn placeable(holds: &[Hold], prefix: &str, actor: &str) -> Result<(), Rejection> {
    let refused = |text| Err(Rejection::new(Reason::StateNotAllowed, text));
    if let Some(same) = holds.iter().find(|hold| hold.prefix == prefix) {
        return refused(format!(
            "{} are held already, by {}: nothing was changed",
            held_consumers(prefix),
            same.actor
        ));
    }
    let of_prefixes = || holds.iter().filter(|hold| !hold.prefix.is_empty());
    if prefix.is_empty() {
        Ok(())
    } else if of_prefixes().filter(|hold| hold.actor == actor).count() >= OF_ONE_MAX {
        refused(format!(
            "{actor} has placed {OF_ONE_MAX} holds that are in force, the most of one principal; nothing was changed: \
             end some of them, or hold a shorter prefix"
        ))
    } else if of_prefixes().count() >= HOLDS_MAX {
        refused(format!(
            "{HOLDS_MAX} holds of prefixes are in force, the most of all principals; nothing was changed: end some of \
             them, or hold a shorter prefix or all consumers"
        ))
    } else {
        Ok(())
    }
}

/// Whether the hold on `prefix` can end.
///
/// # Errors
/// `STATE_NOT_ALLOWED`: it is not in force.
pub fn liftable(holds: &[Hold], prefix: &str) -> Result<(), Rejection> {
    if holds.iter().any(|hold| hold.prefix == prefix) {
        return Ok(());
    }
    Err(Rejection::new(
        Reason::StateNotAllowed,
        format!(
            "no hold on exactly {} is in force: nothing was changed; ListHolds shows those that are",
            held_consumers(prefix)
        ),
    ))
}

/// Why a policy cannot have this consumer name; `None` if it can. Rights use a trailing `*` for many
/// consumers, and a policy that was set for such a name would apply to none of them.
#[must_use]
pub fn names_many(consumer: &str) -> Option<&'static str> {
    consumer.ends_with('*').then_some(
        "ends with *, and a policy belongs to one consumer: name the consumer; the default policy of the server's file is \
         for all that have no policy themselves, and HoldConsumers (`policy hold`) stops all consumers or those of a prefix",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(prefix: &str, actor: &str) -> Hold {
        Hold { prefix: prefix.into(), created_at: StoreTime(0), actor: actor.into(), reason: "why".into() }
    }

    #[test]
    fn hold_covers_names_that_begin_with_its_prefix() {
        for (prefix, consumer, covered) in [
            ("", "any", true),
            ("", "", true),
            ("pay", "pay", true),
            ("pay", "payments", true),
            ("pay", "pa", false),
            ("pay", "Payments", false),
            ("pay", "prepay", false),
        ] {
            assert_eq!(hold(prefix, "one").covers(consumer), covered, "{prefix:?} {consumer:?}");
        }
        for (prefix, asked, met) in
            [("", "a", true), ("a", "", true), ("ab", "a", true), ("a", "ab", true), ("ab", "ac", false)]
        {
            assert_eq!(hold(prefix, "one").meets(asked), met, "{prefix:?} {asked:?}");
        }
    }

    #[test]
    fn place_refuses_a_hold_in_force_and_one_beyond_the_bound() {
        let many = |actor: &str, count: usize| -> Vec<Hold> {
            (0..count).map(|number| hold(&format!("{actor}-{number}"), actor)).collect()
        };
        let full = [many("one", 50), many("two", 50)].concat();
        let nearly = [many("one", 50), many("two", 49)].concat();
        let all = [many("one", 49), vec![hold("", "one")]].concat();
        for (name, holds, prefix, actor, says) in [
            ("nothing is held", vec![], "a", "one", ""),
            ("the same", vec![hold("a", "two")], "a", "one", "held already, by two"),
            ("all, again", vec![hold("", "two")], "", "one", "all consumers are held already"),
            ("a longer one", vec![hold("a", "two")], "ab", "one", ""),
            ("a wider one", vec![hold("ab", "two")], "a", "one", ""),
            ("one's last", many("one", 49), "a", "one", ""),
            ("one more than one's share", many("one", 50), "a", "one", "the most of one principal"),
            ("another's", many("one", 50), "a", "two", ""),
            ("the last", nearly, "a", "two", ""),
            ("one more than all", full.clone(), "a", "three", "the most of all principals"),
            ("all consumers, always", full, "", "one", ""),
            ("that of all consumers is not counted", all, "a", "one", ""),
        ] {
            let said =
                placeable(&holds, prefix, actor).err().map(|refused| refused.message).unwrap_or_default();
            assert!(said.contains(says) && said.is_empty() == says.is_empty(), "{name}: {said:?}");
        }
    }

    #[test]
    fn lift_ends_only_the_same_prefix() {
        let holds = [hold("pay", "one")];
        for (prefix, fits) in [("pay", true), ("", false), ("pa", false), ("payments", false)] {
            assert_eq!(liftable(&holds, prefix).is_ok(), fits, "{prefix:?}");
        }
    }

    #[test]
    fn policy_name_for_many_consumers_is_refused() {
        for (name, many) in [("*", true), ("team-a*", true), ("a*b", false), ("a", false), ("*a", false)] {
            assert_eq!(names_many(name).is_some(), many, "{name}");
        }
    }
}
