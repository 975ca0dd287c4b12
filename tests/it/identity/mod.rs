//! Who calls, and what they may do.

mod credentials;
mod every_rpc;
mod http_tls;
mod items;
mod limits;
mod listeners;
mod matrix;
mod refused_fields;
pub(crate) mod reload;
mod rights;
mod seen;
pub(crate) mod tls;
pub(crate) mod web_tokens;

use std::sync::atomic::{AtomicU64, Ordering};

use idempotency_ledger::identity::{NewToken, Rights, Tokens, Trust};
use idempotency_ledger::proto;
use tonic::{Request, Response, Status};

use crate::harness::details::refusal;
use crate::harness::random::Random;

/// What holders of tokens may do: each name with its lines, `CONSUMERS: RIGHTS`.
pub(super) struct People {
    pub(super) tokens: Vec<(String, NewToken)>,
    pub(super) tokens_file: String,
    pub(super) rights_file: String,
}

impl People {
    pub(super) fn new(people: &[(&str, &[(&str, &str)])]) -> People {
        let mut all =
            People { tokens: Vec::new(), tokens_file: "[tokens]\n".to_owned(), rights_file: String::new() };
        for (name, lines) in people {
            let token = NewToken::make(name).unwrap();
            all.tokens_file += &format!("{name} = [{:?}]\n", token.hash);
            for (consumers, may) in *lines {
                all.rights_file += &format!(
                    "[[rights]]\nprincipal = \"token:{name}\"\nconsumers = [{consumers:?}]\nmay = [{}]\n",
                    may.split(' ').map(|right| format!("{right:?}")).collect::<Vec<_>>().join(", ")
                );
            }
            all.tokens.push(((*name).to_owned(), token));
        }
        all
    }

    pub(super) fn token(&self, name: &str) -> &str {
        &self.tokens.iter().find(|(one, _)| one == name).unwrap().1.token
    }

    pub(super) fn trust(&self) -> Trust {
        Trust {
            tokens: Some(Tokens::read(&self.tokens_file).unwrap().into()),
            rights: Rights::read(&self.rights_file).unwrap().into(),
            ..Trust::default()
        }
    }
}

/// An id that no other call of the tests has.
pub(super) fn fresh() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Random::new(NEXT.fetch_add(1, Ordering::SeqCst)).claim_id()
}

/// The same request, with this header once more.
pub(crate) fn with<T>(mut request: Request<T>, name: &'static str, value: &str) -> Request<T> {
    request.metadata_mut().append(name, value.parse().unwrap());
    request
}

/// The same request by the holder of a token.
pub(crate) fn by<T>(token: &str, message: T) -> Request<T> {
    with(Request::new(message), "authorization", &format!("Bearer {token}"))
}

/// Instead of a reason: the client library has ended the call after its deadline, before an answer of the server arrived. It says
/// neither that the call was refused nor that it was allowed.
pub(super) const NO_ANSWER: &str = "NO_ANSWER";

/// Why a call was refused; empty: it was not.
pub(super) fn why<T>(answer: Result<Response<T>, Status>) -> String {
    let in_time = |status: &Status| status.message() != "Timeout expired";
    let why = |status: Status| if in_time(&status) { refusal(&status).reason } else { NO_ANSWER.to_owned() };
    answer.err().map_or(String::new(), why)
}

/// Why an item was refused.
pub(super) fn word(rejected: &proto::Rejected) -> String {
    rejected.reason().as_str_name().trim_start_matches("ERROR_REASON_").to_owned()
}
