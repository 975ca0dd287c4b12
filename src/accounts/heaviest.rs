//! The order in which calls end when all together hold too much.

use std::cmp::Reverse;
use std::collections::HashMap;

/// Bytes that moved within this time count less than those that have waited longer: a large answer that its client is reading is
/// never the heaviest. In ticks, one second.
pub(super) const RECENT: u32 = 2;

/// A call that may be ended, and what it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Identifies the owner and the connection.
    pub(super) owner: usize,
    pub(super) connection: usize,
    pub(super) bytes: usize,
    /// Ticks without progress.
    pub(super) idle: u32,
}

/// The indexes of the calls whose end returns `excess` bytes: those of the owner who holds most, of its connection that holds
/// most, the largest first. Bytes that have waited for one second count before all others.
pub(super) fn heaviest(calls: &[Held], excess: usize) -> Vec<usize> {
    let mut of_owner: HashMap<usize, (usize, usize)> = HashMap::new();
    let mut of_connection: HashMap<(usize, usize), (usize, usize)> = HashMap::new();
    let weight = |call: &Held| (if call.idle >= RECENT { call.bytes } else { 0 }, call.bytes);
    let add = |sum: &mut (usize, usize), (old, all)| *sum = (sum.0 + old, sum.1 + all);
    for call in calls {
        add(of_owner.entry(call.owner).or_default(), weight(call));
        add(of_connection.entry((call.owner, call.connection)).or_default(), weight(call));
    }
    let mut places: Vec<usize> = (0..calls.len()).collect();
    places.sort_by_cached_key(|place| {
        let call = &calls[*place];
        let connection = (call.owner, call.connection);
        Reverse((of_owner[&call.owner], call.owner, of_connection[&connection], connection, weight(call)))
    });
    let mut given_back = 0;
    let enough = |place: &usize| {
        let before = given_back;
        given_back += calls[*place].bytes;
        before < excess
    };
    places.into_iter().take_while(enough).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_owner_and_its_heaviest_connection_go_first() {
        const OLD: u32 = RECENT;
        // Owner, connection, bytes and idle ticks of each call; how many bytes must be returned; which calls end.
        for (what, calls, excess, ended) in [
            ("nothing is too much", &[(0, 0, 9, OLD)][..], 0, &[][..]),
            ("the owner with most", &[(0, 0, 9, OLD), (1, 1, 6, OLD), (1, 2, 5, OLD)], 1, &[1]),
            ("as many as it takes", &[(0, 0, 9, OLD), (1, 1, 6, OLD), (1, 2, 5, OLD)], 7, &[1, 2]),
            ("its heaviest connection", &[(1, 1, 6, OLD), (1, 2, 4, OLD), (1, 2, 3, OLD)], 5, &[1, 2]),
            (
                "a large answer that is being read stays",
                &[(0, 0, 900, 0), (1, 1, 5, OLD), (1, 2, 4, OLD)],
                6,
                &[1, 2],
            ),
            ("also of one owner", &[(1, 1, 900, 0), (1, 2, 5, OLD)], 1, &[1]),
            ("where nothing else is held it goes", &[(0, 0, 900, 0), (1, 1, 5, 0)], 6, &[0]),
            ("and where that is not enough", &[(0, 0, 900, 0), (1, 1, 5, OLD)], 6, &[1, 0]),
        ] {
            let held = |(owner, connection, bytes, idle): &(usize, usize, usize, u32)| Held {
                owner: *owner,
                connection: *connection,
                bytes: *bytes,
                idle: *idle,
            };
            let calls: Vec<Held> = calls.iter().map(held).collect();
            assert_eq!(heaviest(&calls, excess), ended, "{what}");
        }
    }
}
