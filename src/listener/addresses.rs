//! The number of open connections of each address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::accounts::network;

/// See the module.
#[derive(Clone)]
pub(crate) struct Addresses {
    max: usize,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Addresses {
    /// At most this number for each address.
    pub(crate) fn new(max: usize) -> Addresses {
        Addresses { max, open: Arc::default() }
    }

    /// Counts one more connection of an address. `None` if the address has as many as it may have.
    pub(crate) fn connected(&self, address: IpAddr) -> Option<FromAddress> {
        self.connected_within(address, usize::MAX)
    }

    /// As [`Addresses::connected`], while `free` permits are left for all: an address has no more than it leaves free.
    pub(crate) fn connected_within(&self, address: IpAddr, free: usize) -> Option<FromAddress> {
        let whose = network(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(whose).or_default();
        if *count >= self.max.min(free) {
            // Only connected addresses are kept.
            if *count == 0 {
                open.remove(&whose);
            }
            return None;
        }
        *count += 1;
        Some(FromAddress { addresses: self.clone(), whose })
    }

    /// Number of connections that are counted.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

/// Counts one connection for its address, until this is dropped.
pub(crate) struct FromAddress {
    addresses: Addresses,
    whose: IpAddr,
}

impl Drop for FromAddress {
    fn drop(&mut self) {
        let mut open = self.addresses.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.whose) {
            *count -= 1;
            // Only connected addresses are kept, so that the map does not grow.
            if *count == 0 {
                open.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_number_and_gives_it_back() {
        let addresses = Addresses::new(2);
        let connected = |text: &str| addresses.connected(text.parse().expect("an address"));
        let (first, second) = (connected("192.0.2.1"), connected("::ffff:192.0.2.1"));
        assert!(first.is_some() && second.is_some());
        assert!(connected("192.0.2.1").is_none(), "the same address, however it is written");
        let other = connected("192.0.2.2");
        assert!(other.is_some());
        drop(first);
        let again = connected("192.0.2.1");
        assert!(again.is_some() && connected("192.0.2.1").is_none());
        drop((second, again, other));
        assert_eq!(addresses.open.lock().expect("no panic").len(), 0, "nothing is kept");
    }

    #[test]
    fn an_address_leaves_as_many_permits_as_it_has() {
        let (addresses, mut held) = (Addresses::new(8), Vec::new());
        let mut took = |last: u8, permits: usize| {
            let before = held.len();
            while let Some(one) = addresses.connected_within([192, 0, 2, last].into(), permits - held.len()) {
                held.push(one);
            }
            held.len() - before
        };
        assert_eq!([1, 2, 3, 4, 5, 6].map(|last| took(last, 16)), [8, 4, 2, 1, 1, 0]);
        drop(held);
        assert_eq!(addresses.open.lock().expect("no panic").len(), 0, "nothing is kept");
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one() {
        let addresses = Addresses::new(1);
        let connected = |text: &str| addresses.connected(text.parse().expect("an address"));
        let first = connected("2001:db8:1:2::1");
        assert!(first.is_some() && connected("2001:db8:1:2:ffff::9").is_none());
        assert!(connected("2001:db8:1:3::1").is_some());
    }
}
