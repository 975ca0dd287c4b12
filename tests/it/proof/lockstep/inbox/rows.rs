//! The rows of all lanes of a consumer, and what became of them in a ClaimNext.

use idempotency_ledger::domain::Key;
use idempotency_ledger::proto;
use uuid::Uuid;

use super::DuePlace;
use crate::harness::server::TestServer;
use crate::proof::lockstep::{IN_RUN, Lane, name};
use crate::proof::spec::{self, Look, Row, Said, World, inbox};
use crate::proof::{by_core, reported};

/// A lane, and the number of one of its keys.
pub(super) type Place = (usize, usize);

/// The rows that nothing was handed out of: parked as the spec parks them, or as they were. Returns the number of the first, and
/// what the spec says of the others.
pub(super) async fn untouched(
    server: &TestServer,
    lanes: &mut [Lane],
    left: &[Place],
    look: &Look,
    now: i64,
) -> Result<(usize, Vec<(Place, Said)>), String> {
    let keys: Vec<Key> = left.iter().map(|(lane, at)| name(&lanes[*lane].keys[*at])).collect();
    let (mut parked, mut others) = (0, Vec::new());
    for (place, stored) in left.iter().zip(server.entries(&keys).await) {
        let stored = stored.as_ref().map(by_core::row);
        let (said, after) = inbox::handed(row(lanes, *place), look, &world(lanes, *place, now, 0));
        if matches!(said, Said::Parked { .. }) && stored == after {
            lanes[place.0].becomes(place.1, after);
            parked += 1;
        } else if stored.as_ref() == Some(row(lanes, *place)) {
            others.push((*place, said));
        } else {
            return Err(format!(
                "a message that was not handed out is {stored:?}, was {:?}",
                row(lanes, *place)
            ));
        }
    }
    Ok((parked, others))
}

/// The row of a message that was handed out, as the spec grants it.
pub(super) fn judged(
    lanes: &[Lane],
    place: Place,
    handed: &proto::Handed,
    look: &Look,
    now: i64,
) -> Result<Row, String> {
    payload_of(lanes, place, handed)?;
    let acquired = handed.acquired.as_ref().expect("a claim");
    let (expected, after) = inbox::handed(row(lanes, place), look, &world(lanes, place, now, acquired.token));
    let said = reported::handed(acquired);
    match after {
        Some(after) if said == expected => Ok(after),
        _ => Err(format!("the message is handed out with {said:?}, by the spec {expected:?}")),
    }
}

/// The message is that of the last Store that was answered `stored`.
pub(super) fn payload_of(lanes: &[Lane], (lane, at): Place, handed: &proto::Handed) -> Result<(), String> {
    let found = handed.message.as_ref().map(|message| message.payload.to_vec());
    let stored = &lanes[lane].payloads[at];
    if found.as_ref() == Some(stored) {
        Ok(())
    } else {
        Err(format!("another message: {found:?}, not {stored:?}"))
    }
}

pub(super) fn world<'a>(lanes: &'a [Lane], (lane, at): Place, now: i64, choice: i64) -> World<'a> {
    World { policy: &lanes[lane].policies[at], now, offset: 0, behind: false, ahead: false, choice }
}

pub(super) fn row(lanes: &[Lane], (lane, at): Place) -> &Row {
    lanes[lane].rows[at].as_ref().expect("a row that is due")
}

/// Returns the messages of a consumer that are due.
pub(super) fn due(lanes: &[Lane], consumer: usize, now: i64) -> Vec<Place> {
    let own = lanes.iter().enumerate().filter(|(_, lane)| lane.consumer == consumer);
    let all = own.flat_map(|(number, lane)| (0..lane.keys.len()).map(move |at| (number, at)));
    let is_due = |(lane, at): &Place| {
        let row = lanes[*lane].rows[*at].as_ref().filter(|_| *at != IN_RUN);
        row.and_then(spec::next_at).is_some_and(|due| due <= now)
    };
    all.filter(is_due).collect()
}

/// Returns where a message that is due is read.
pub(super) fn due_place(lanes: &[Lane], place: Place) -> DuePlace {
    let due_at = spec::next_at(row(lanes, place)).expect("a message that is due");
    (due_at, name(&lanes[place.0].keys[place.1]).hash())
}

pub(super) fn place_of(lanes: &[Lane], handed: &proto::Handed) -> Result<Place, String> {
    let key = handed.key.as_ref().expect("a key");
    let found = lanes
        .iter()
        .enumerate()
        .find_map(|(number, lane)| lane.keys.iter().position(|own| own == key).map(|at| (number, at)));
    found.ok_or_else(|| format!("{key:?} was handed out, of which nothing is kept"))
}

pub(super) fn request(consumer: usize, look: &Look) -> proto::ClaimNextRequest {
    proto::ClaimNextRequest {
        consumer: format!("c{consumer}"),
        claim_id: Uuid::from_u128(look.who.0).to_string(),
        owner: look.who.1.clone(),
        lease: look.lease.map(|micros| prost_types::Duration { seconds: micros / 1_000_000, nanos: 0 }),
        max: i32::try_from(look.max).expect("few"),
        bytes_max: i32::try_from(look.bytes_max).expect("few"),
        wait: None,
    }
}

pub(super) fn reason(said: &Said) -> Option<&str> {
    if let Said::Error { reason, .. } = said { Some(reason) } else { None }
}

pub(super) fn note(lanes: &mut [Lane], consumer: usize, line: &str) {
    for lane in lanes.iter_mut().filter(|lane| lane.consumer == consumer) {
        lane.log.push(line.to_owned());
    }
}

pub(super) fn logs(lanes: &[Lane], consumer: usize) -> String {
    let own = lanes.iter().enumerate().filter(|(_, lane)| lane.consumer == consumer);
    let logs: Vec<String> =
        own.map(|(number, lane)| format!("lane {number}\n{}", lane.log.join("\n"))).collect();
    logs.join("\n\n")
}
