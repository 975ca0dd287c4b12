//! What a package says of a delivery, as lines.

use idempotency_ledger_client::{Advice, Error, Outcome};

use crate::lines::say;

pub(crate) fn failed(call: &str, error: &Error) {
    match error {
        Error::InvalidField(fault) => {
            say!("error", call: call, error: "InvalidField", field: fault.field, text: fault.bound)
        }
        Error::Closed => say!("error", call: call, error: "Closed", field: "", text: error.to_string()),
    }
}

pub(crate) fn finished(call: &str, outcome: &Outcome) {
    let delay = if let Advice::RetryLater { after } = outcome.advice { after.as_secs_f64() } else { 0.0 };
    let result = outcome.result.as_deref().map(String::from_utf8_lossy);
    say!("outcome", call: call, advice: outcome.advice.name(), delay: delay, result: result, replayed: outcome.replayed,
        result_dropped: outcome.result_dropped, effect_unknown: outcome.effect_unknown, reason: outcome.reason);
}
