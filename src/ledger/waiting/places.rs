//! Bounds of waiting calls: on this server, for one key, of one consumer and of one principal.

use std::collections::HashMap;

use crate::common::still_counted::StillCounted;

/// The bounds of waiting calls.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// On this server.
    pub server: usize,
    /// For one key.
    pub key: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { server: 10_000, key: 100 }
    }
}

/// The number of waiting calls. A consumer, and a principal, has at most as many as it leaves free (dynamic thresholds, as for
/// bytes of requests): one leaves half of the places to others, four leave a fifth.
#[derive(Debug, Default)]
pub(in crate::ledger) struct WaitPlaces {
    all: usize,
    consumers: HashMap<String, usize>,
    principals: HashMap<String, usize>,
}

impl WaitPlaces {
    /// Takes a place; returns whether there was one. `principal`: `None` if all callers are the same one, since no source of
    /// identity is configured. `of_key`: number of calls that wait for the key.
    pub(in crate::ledger) fn take(
        &mut self,
        bounds: Bounds,
        consumer: &str,
        principal: Option<&str>,
        of_key: usize,
    ) -> bool {
        let free = bounds.server.saturating_sub(self.all);
        let fits =
            |map: &HashMap<String, usize>, name: &str| map.get(name).copied().unwrap_or_default() < free;
        let is_room = of_key < bounds.key
            && free > 0
            && fits(&self.consumers, consumer)
            && principal.is_none_or(|principal| fits(&self.principals, principal));
        if is_room {
            self.all += 1;
            *self.consumers.entry(consumer.to_owned()).or_default() += 1;
            if let Some(principal) = principal {
                *self.principals.entry(principal.to_owned()).or_default() += 1;
            }
        }
        is_room
    }

    /// Notes the places that are taken.
    pub(in crate::ledger) fn still_counted(&self, left: &mut StillCounted) {
        left.note("waiting calls", self.all);
        left.note("waiting calls by consumer", self.consumers.values().sum());
        left.note("waiting calls by principal", self.principals.values().sum());
    }

    /// Returns a place.
    pub(in crate::ledger) fn requeue(&mut self, consumer: &str, principal: Option<&str>) {
        self.all -= 1;
        less(&mut self.consumers, consumer);
        if let Some(principal) = principal {
            less(&mut self.principals, principal);
        }
    }
}

/// Decrements a count. Names with a count of zero are removed.
fn less(map: &mut HashMap<String, usize>, name: &str) {
    if let Some(count) = map.get_mut(name) {
        *count -= 1;
        if *count == 0 {
            map.remove(name);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn taken(places: &mut WaitPlaces, bounds: Bounds, consumer: &str, principal: Option<&str>) -> usize {
        (0..bounds.server * 2).take_while(|_| places.take(bounds, consumer, principal, 0)).count()
    }

    #[test]
    fn a_consumer_and_a_principal_have_at_most_what_is_free_after_them() {
        let bounds = Bounds { server: 24, key: 100 };
        let mut places = WaitPlaces::default();
        let took = ["a", "b", "c"].map(|consumer| taken(&mut places, bounds, consumer, None));
        assert_eq!(took, [12, 6, 3], "of one consumer each");
        let mut places = WaitPlaces::default();
        let took = ["a", "b", "c"].map(|consumer| taken(&mut places, bounds, consumer, Some("p")));
        assert_eq!(took, [12, 0, 0], "a principal with many consumers");
        assert_eq!(taken(&mut places, bounds, "d", Some("q")), 6, "another one");
        for (consumer, principal, count) in [("a", "p", 12), ("d", "q", 6)] {
            (0..count).for_each(|_| places.requeue(consumer, Some(principal)));
        }
        assert!(places.consumers.is_empty() && places.principals.is_empty(), "nothing is kept");
        assert_eq!(places.all, 0);
    }

    #[test]
    fn a_server_and_a_key_have_a_bound() {
        let bounds = Bounds { server: 4, key: 2 };
        let mut places = WaitPlaces::default();
        assert!(places.take(bounds, "a", None, 1) && !places.take(bounds, "a", None, 2), "of the key");
        let took: usize = (0..8).map(|number| taken(&mut places, bounds, &number.to_string(), None)).sum();
        assert_eq!((took, places.all), (3, 4), "of the server");
    }
}
