//! Makes the answer to a batch fit its bound in bytes: results are left out first, then checkpoints, then the
//! violations of refused items, whose messages still name the fields; then the longest texts are cut, all to
//! the same length. No item is left out, and no grant loses its token.

use prost::Message;
use prost::encoding::encoded_len_varint;

use crate::proto::claim_response::Verdict;
use crate::proto::lookup_response::Found;
use crate::proto::lookup_result::Outcome as Looked;
use crate::proto::settlement_result::Outcome;
use crate::proto::{self, LookupResponse};

/// The end of a text that was cut.
const MARK: &str = "… [truncated]";

/// A text of at most `max` bytes; a longer one is cut and ends with the mark, for which `max` must have room.
pub(super) fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let Some(mut end) = max.checked_sub(MARK.len()) else { return String::new() };
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MARK}", text.get(..end).unwrap_or_default())
}

pub(crate) fn claims(responses: &mut [proto::ClaimResponse], bytes_max: usize) {
    let steps = [leave_result_out, leave_checkpoint_out, leave_violations_out];
    let with = |step: fn(&mut Verdict)| {
        move |response: &mut proto::ClaimResponse| {
            if let Some(verdict) = &mut response.verdict {
                step(verdict);
            }
        }
    };
    fit(responses, bytes_max, &steps.map(with), |response| response.verdict.as_mut().and_then(text));
}

pub(crate) fn settlements(results: &mut [proto::SettlementResult], bytes_max: usize) {
    let refused = |result: &mut proto::SettlementResult| {
        if let Some(Outcome::Rejected(rejected)) = &mut result.outcome {
            rejected.field_violations.clear();
        }
    };
    fit(results, bytes_max, &[refused], |result| match &mut result.outcome {
        Some(Outcome::Rejected(rejected)) => Some(&mut rejected.message),
        Some(Outcome::Complete(_) | Outcome::Fail(_) | Outcome::Release(_) | Outcome::Renew(_)) | None => {
            None
        }
    });
}

pub(crate) fn lookups(results: &mut [proto::LookupResult], bytes_max: usize) {
    let results_out = |result: &mut proto::LookupResult| {
        if let Some(Looked::Lookup(LookupResponse { found: Some(Found::Completed(completed)), .. })) =
            &mut result.outcome
        {
            leave_out(completed);
        }
    };
    let violations_out = |result: &mut proto::LookupResult| {
        if let Some(Looked::Rejected(rejected)) = &mut result.outcome {
            rejected.field_violations.clear();
        }
    };
    let steps: [fn(&mut proto::LookupResult); 2] = [results_out, violations_out];
    fit(results, bytes_max, &steps, |result| match &mut result.outcome {
        Some(Looked::Lookup(response)) => match &mut response.found {
            Some(Found::InProgress(held)) => Some(&mut held.owner),
            Some(Found::Backoff(backoff)) => Some(&mut backoff.last_error),
            Some(Found::Failed(failed)) => Some(&mut failed.error),
            Some(Found::Parked(parked)) => Some(&mut parked.error),
            Some(Found::Completed(_)) | None => None,
        },
        Some(Looked::Rejected(rejected)) => Some(&mut rejected.message),
        None => None,
    });
}

/// Leaves fields out step by step, from the last item on, and then cuts the texts.
fn fit<T: Message>(
    items: &mut [T],
    bytes_max: usize,
    leave_out: &[impl Fn(&mut T)],
    text: impl Fn(&mut T) -> Option<&mut String>,
) {
    let mut bytes: usize = items.iter().map(size).sum();
    for step in leave_out {
        for item in items.iter_mut().rev() {
            if bytes <= bytes_max {
                return;
            }
            let before = size(item);
            step(item);
            bytes -= before - size(item);
        }
    }
    if bytes <= bytes_max {
        return;
    }
    let lengths: Vec<usize> = items.iter_mut().filter_map(|item| text(item).map(|text| text.len())).collect();
    let room = bytes_max.saturating_sub(bytes - lengths.iter().sum::<usize>());
    let longest = level(lengths, room);
    for text in items.iter_mut().filter_map(text) {
        *text = cut(text, longest);
    }
}

/// The length to which the longest of these texts must be cut so that all of them fit: short ones stay whole.
fn level(mut lengths: Vec<usize>, room: usize) -> usize {
    lengths.sort_unstable();
    let (mut room, mut left) = (room, lengths.len());
    for length in lengths {
        let share = room / left;
        if length > share {
            return share;
        }
        room -= length;
        left -= 1;
    }
    usize::MAX
}

/// The encoded size of an item of a list: its tag, its length, and itself.
fn size<T: Message>(item: &T) -> usize {
    let length = item.encoded_len();
    1 + encoded_len_varint(length as u64) + length
}

fn leave_result_out(verdict: &mut Verdict) {
    if let Verdict::Completed(completed) = verdict {
        leave_out(completed);
    }
}

fn leave_out(completed: &mut proto::Completed) {
    if !completed.result.is_empty() {
        completed.result.clear();
        completed.result_omitted = true;
    }
}

fn leave_checkpoint_out(verdict: &mut Verdict) {
    if let Verdict::Acquired(acquired) = verdict
        && acquired.checkpoint.len() > 2
    {
        acquired.checkpoint.clear();
        acquired.checkpoint_omitted = true;
    }
}

fn leave_violations_out(verdict: &mut Verdict) {
    if let Verdict::Rejected(rejected) = verdict {
        rejected.field_violations.clear();
    }
}

/// The text for people; each verdict has at most one.
fn text(verdict: &mut Verdict) -> Option<&mut String> {
    match verdict {
        Verdict::Acquired(acquired) => Some(&mut acquired.last_error),
        Verdict::InProgress(held) => Some(&mut held.owner),
        Verdict::Backoff(backoff) => Some(&mut backoff.last_error),
        Verdict::Failed(failed) => Some(&mut failed.error),
        Verdict::Parked(parked) => Some(&mut parked.error),
        Verdict::Rejected(rejected) => Some(&mut rejected.message),
        Verdict::Completed(_)
        | Verdict::FingerprintMismatch(_)
        | Verdict::OutsideWindow(_)
        | Verdict::Suppressed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters_and_marked() {
        assert_eq!(cut("short", 5), "short");
        let text = "é".repeat(20);
        for max in 0..40 {
            let short = cut(&text, max);
            assert!(short.len() <= max, "{max}: {short}");
            assert_eq!(short.ends_with(MARK), max >= MARK.len(), "{max}: {short}");
        }
        // A text that was cut twice has one mark.
        let twice = cut(&cut(&"x".repeat(100), 50), 30);
        assert_eq!((twice.len(), twice.matches(MARK).count()), (30, 1));
    }

    #[test]
    fn short_texts_stay_whole() {
        for (lengths, room, expected) in [
            (vec![], 0, usize::MAX),
            (vec![10, 20, 30], 60, usize::MAX),
            (vec![10, 20, 30], 59, 29),
            (vec![1_000, 5, 1_000], 105, 50),
            (vec![7, 7], 0, 0),
        ] {
            assert_eq!(level(lengths.clone(), room), expected, "{lengths:?} in {room}");
        }
    }

    #[test]
    fn fit_leaves_out_results_then_checkpoints_then_texts_and_no_grant() {
        let acquired = |token| {
            Verdict::Acquired(proto::Acquired {
                token,
                checkpoint: vec![1; 1_000].into(),
                last_error: "e".repeat(1_000),
                ..Default::default()
            })
        };
        let completed =
            Verdict::Completed(proto::Completed { result: vec![1; 1_000].into(), ..Default::default() });
        let whole = [completed, acquired(7), acquired(8)];
        let fitted = |bytes_max| {
            let of = |verdict: &Verdict| proto::ClaimResponse {
                verdict: Some(verdict.clone()),
                ..Default::default()
            };
            let mut responses: Vec<_> = whole.iter().map(of).collect();
            claims(&mut responses, bytes_max);
            let bytes: usize = responses.iter().map(size).sum();
            let left = responses.into_iter().map(|response| match response.verdict {
                Some(Verdict::Completed(it)) => (0, it.result.len(), it.result_omitted),
                Some(Verdict::Acquired(it)) => {
                    (it.token, it.checkpoint.len() + it.last_error.len(), it.checkpoint_omitted)
                }
                other => panic!("{other:?}"),
            });
            (bytes, left.collect::<Vec<_>>())
        };
        assert_eq!(fitted(10_000).1, [(0, 1_000, false), (7, 2_000, false), (8, 2_000, false)]);
        assert_eq!(fitted(5_000).1, [(0, 0, true), (7, 2_000, false), (8, 2_000, false)]);
        assert_eq!(fitted(4_000).1, [(0, 0, true), (7, 2_000, false), (8, 1_000, true)]);
        assert_eq!(fitted(3_000).1, [(0, 0, true), (7, 1_000, true), (8, 1_000, true)]);
        let (bytes, left) = fitted(1_000);
        assert!((960..=1_000).contains(&bytes), "{bytes}");
        assert!(left[1].1 == left[2].1 && left[1].1 > 400, "{left:?}");
        assert_eq!(fitted(0).1, [(0, 0, true), (7, 0, true), (8, 0, true)]);
    }

    fn long() -> String {
        "e".repeat(1_000)
    }

    fn bytes<T: Message>(items: &[T]) -> usize {
        items.iter().map(size).sum()
    }

    #[test]
    fn claims_cut_the_text_of_each_verdict() {
        for verdict in [
            Verdict::InProgress(proto::InProgress { owner: long(), ..Default::default() }),
            Verdict::Backoff(proto::Backoff { last_error: long(), ..Default::default() }),
            Verdict::Failed(proto::Failed { error: long(), ..Default::default() }),
            Verdict::Parked(proto::Parked { error: long(), ..Default::default() }),
            Verdict::Rejected(proto::Rejected { message: long(), ..Default::default() }),
        ] {
            // A verdict without a text stays whole.
            let plain = Verdict::Suppressed(proto::Suppressed::default());
            let of = |verdict| proto::ClaimResponse { verdict: Some(verdict), ..Default::default() };
            let mut responses = [of(verdict), of(plain.clone())];
            claims(&mut responses, 300);
            assert!((250..=300).contains(&bytes(&responses)), "{responses:?}");
            assert_eq!(responses[1], of(plain));
        }
    }

    #[test]
    fn lookups_leave_out_results_and_violations_and_cut_the_text_of_each_finding() {
        let looked = |found| {
            let outcome = Some(Looked::Lookup(LookupResponse { found: Some(found), ..Default::default() }));
            proto::LookupResult { outcome }
        };
        let violation = proto::FieldViolation { field: long(), ..Default::default() };
        let rejected =
            proto::Rejected { field_violations: vec![violation], message: long(), ..Default::default() };
        let completed = proto::Completed { result: vec![1; 1_000].into(), ..Default::default() };
        for result in [
            looked(Found::InProgress(proto::InProgress { owner: long(), ..Default::default() })),
            looked(Found::Backoff(proto::Backoff { last_error: long(), ..Default::default() })),
            looked(Found::Failed(proto::Failed { error: long(), ..Default::default() })),
            looked(Found::Parked(proto::Parked { error: long(), ..Default::default() })),
            proto::LookupResult { outcome: Some(Looked::Rejected(rejected)) },
        ] {
            let mut results =
                [result, looked(Found::Completed(completed.clone())), proto::LookupResult { outcome: None }];
            lookups(&mut results, 300);
            assert!((250..=300).contains(&bytes(&results)), "{results:?}");
            let Some(Looked::Lookup(LookupResponse { found: Some(Found::Completed(left)), .. })) =
                &results[1].outcome
            else {
                panic!("{results:?}")
            };
            assert!(left.result.is_empty() && left.result_omitted, "{left:?}");
        }
    }

    #[test]
    fn settlements_cut_refusals_and_nothing_else() {
        let violation = proto::FieldViolation { field: long(), ..Default::default() };
        let rejected =
            proto::Rejected { field_violations: vec![violation], message: long(), ..Default::default() };
        let of = |outcome| proto::SettlementResult { outcome: Some(outcome) };
        let complete = of(Outcome::Complete(proto::CompleteResponse::default()));
        let mut results = [complete.clone(), of(Outcome::Rejected(rejected)), complete.clone()];
        settlements(&mut results, 300);
        assert!((250..=300).contains(&bytes(&results)), "{results:?}");
        assert_eq!([&results[0], &results[2]], [&complete; 2]);
    }
}
