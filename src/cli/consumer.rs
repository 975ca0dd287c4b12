//! Whether the ledger knows a consumer: a mistyped name is valid like any other; and refusals of what concerns all consumers.

use super::client::{Admin, Client};
use super::problem::Problem;
use crate::proto;

/// The note on such a name.
pub(super) const UNKNOWN: &str = "note: the ledger knows no consumer of this name yet";

/// Prints a note if a consumer is unknown.
pub(super) async fn note_unknown(client: &Client, admin: &mut Admin, consumer: &str) {
    if is_unknown(client, admin, consumer).await {
        client.output.note(UNKNOWN);
    }
}

/// Whether a consumer has neither entries nor a policy. False where that cannot be determined.
pub(super) async fn is_unknown(client: &Client, admin: &mut Admin, consumer: &str) -> bool {
    let filter = Some(proto::EntryFilter { consumer: consumer.to_owned(), ..Default::default() });
    let any = proto::ListEntriesRequest { filter, page_size: 1, ..Default::default() };
    let Ok(page) = admin.list_entries(client.request(any)).await else { return false };
    if !page.into_inner().entries.is_empty() {
        return false;
    }
    let named = proto::GetPolicyRequest { consumer: consumer.to_owned() };
    let Ok(policy) = admin.get_policy(client.request(named)).await else { return false };
    policy.into_inner().policy.unwrap_or_default().source() == proto::PolicySource::Default
}

/// A refusal of the server. A list of all consumers needs the right to read all of them.
pub(super) fn refused(status: &tonic::Status, consumer: &str) -> Problem {
    let problem = Problem::of(status);
    if consumer.is_empty() && problem.reason == Some(proto::ErrorReason::ConsumerNotAllowed) {
        return problem.next("your token does not allow to read all consumers: name one with --consumer");
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::problem::tests::status;

    #[test]
    fn list_of_all_consumers_without_the_right_asks_for_one() {
        let next = |consumer| {
            refused(&status(proto::ErrorReason::ConsumerNotAllowed, &[]), consumer).next.unwrap_or_default()
        };
        assert!(next("").contains("name one with --consumer"), "{}", next(""));
        assert!(next("c").contains("ask who hands out the tokens"), "{}", next("c"));
    }
}
