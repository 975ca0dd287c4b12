use std::collections::HashMap;

use tonic_types::ErrorDetails;

use super::*;

/// A refusal as the ledger sends it, with this metadata.
pub(crate) fn status(reason: ErrorReason, metadata: &[(&str, &str)]) -> Status {
    let word = reason.as_str_name().trim_start_matches("ERROR_REASON_");
    let metadata: HashMap<String, String> =
        metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let details = ErrorDetails::with_error_info(word, proto::ERROR_DOMAIN, metadata);
    Status::with_error_details(Code::FailedPrecondition, "refused", details)
}

#[test]
fn refusal_has_its_exit_code_and_next_step() {
    use ErrorReason as Reason;
    for (reason, exit, next) in [
        (Reason::EntryNotFound, Exit::NotFound, Some("find it with `entries list")),
        (Reason::TooRecent, Exit::Conflict, Some("try again in a minute")),
        (Reason::InboxOff, Exit::Conflict, Some("`policy set --inbox`")),
        (Reason::Unauthenticated, Exit::Failed, Some("name your token with --token-file")),
        (Reason::StoreClockBehind, Exit::Unavailable, Some("`tokens show`")),
        (Reason::StoreClockAhead, Exit::Unavailable, Some("`migrate --accept-clock`")),
        (Reason::DeadlineExceeded, Exit::Unavailable, Some("raise --timeout")),
        (Reason::Cancelled, Exit::Unavailable, Some("raise --timeout")),
        (Reason::BacklogFull, Exit::Unavailable, Some("start workers that call ClaimNext")),
        (Reason::Unimplemented, Exit::Failed, Some("older than this command line")),
        (Reason::EntryUnreadable, Exit::Failed, Some("its log says more")),
        (Reason::LeaseLost, Exit::Failed, None),
    ] {
        let problem = Problem::of(&status(reason, &[]));
        assert_eq!((problem.exit, problem.reason), (exit, Some(reason)));
        match next {
            Some(says) => {
                assert!(problem.next.as_deref().is_some_and(|next| next.contains(says)), "{problem:?}");
            }
            None => assert_eq!(problem.next, None, "{reason:?}"),
        }
    }
}

#[test]
fn rejected_entry_names_each_field() {
    let violation = |field: &str, description: &str| proto::FieldViolation {
        field: field.into(),
        description: description.into(),
    };
    let refused = proto::Rejected {
        reason: ErrorReason::InvalidField.into(),
        message: "a field is wrong".into(),
        field_violations: vec![violation("key.id", "is empty"), violation("at", "is\x1b missing")],
        ..Default::default()
    };
    let says = "INVALID_FIELD: a field is wrong; key.id: is empty; at: is\u{fffd} missing";
    assert_eq!(rejected(&refused), says);
}
