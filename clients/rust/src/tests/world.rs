//! A ledger that answers what a test has written down.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use crate::{
    Builder, Ledger,
    calls::{Boxed, Call, Failure, Method, Transport, message},
    proto as pb,
};

/// What the ledger does with a call.
pub(super) enum Reply {
    Answer(Bytes),
    Refuse(Failure),
    /// It is answered after this time, or not within the try's.
    After(Duration, Box<Reply>),
}

pub(super) fn answer(answer: &impl Message) -> Reply {
    Reply::Answer(answer.encode_to_vec().into())
}

/// An error that the ledger has made.
pub(super) fn refused(reason: &str, advice: &str) -> Reply {
    let text = "for people".to_owned();
    Reply::Refuse(Failure {
        reason: Some(reason.to_owned()),
        advice: Some(advice.to_owned()),
        text,
        ..Failure::default()
    })
}

/// An error that a hop has made.
pub(super) fn lost() -> Reply {
    Reply::Refuse(Failure::local("UNAVAILABLE", "a hop"))
}

pub(super) fn acquired() -> pb::Acquired {
    pb::Acquired {
        token: 7,
        attempt: 1,
        lease: Some(message(Duration::from_secs(30))),
        hold: Some(message(Duration::from_secs(600))),
        idempotency_key: "k".to_owned(),
        on_expiry: pb::OnExpiry::Reclaim as i32,
        ..pb::Acquired::default()
    }
}

pub(super) fn verdict(advice: i32, verdict: Option<pb::claim_response::Verdict>) -> Reply {
    answer(&pb::ClaimResponse { advice, retry_after: Some(message(Duration::from_secs(3))), verdict })
}

pub(super) fn grant(acquired: pb::Acquired) -> Reply {
    verdict(pb::Advice::Process as i32, Some(pb::claim_response::Verdict::Acquired(acquired)))
}

pub(super) fn renewed(lease: u64) -> Reply {
    answer(&pb::RenewResponse {
        lease: Some(message(Duration::from_secs(lease))),
        ..pb::RenewResponse::default()
    })
}

pub(super) fn completed() -> Reply {
    answer(&pb::CompleteResponse { advice: pb::Advice::Ack as i32, ..pb::CompleteResponse::default() })
}

pub(super) fn failed(advice: pb::Advice) -> Reply {
    answer(&pb::FailResponse { advice: advice as i32, ..pb::FailResponse::default() })
}

pub(super) fn released() -> Reply {
    answer(&pb::ReleaseResponse { advice: pb::Advice::RetryLater as i32, ..pb::ReleaseResponse::default() })
}

/// The scripted ledger. A call that nothing is written down for is a failure of the test.
#[derive(Default)]
pub(super) struct Script {
    replies: Mutex<VecDeque<Reply>>,
    calls: Mutex<Vec<(Instant, Call)>>,
}

impl Script {
    pub(super) fn of(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        Arc::new(Self { replies: Mutex::new(replies.into_iter().collect()), calls: Mutex::default() })
    }

    pub(super) fn calls(&self) -> Vec<(Instant, Call)> {
        self.calls.lock().unwrap().clone()
    }

    pub(super) fn methods(&self) -> Vec<Method> {
        self.calls().iter().map(|(_, call)| call.method).collect()
    }

    /// The last request, as this message.
    pub(super) fn last<M: Message + Default>(&self) -> M {
        let calls = self.calls();
        M::decode(calls.last().unwrap().1.request.clone()).unwrap()
    }

    pub(super) fn ledger(self: &Arc<Self>) -> Ledger {
        self.ledger_with(|builder| builder)
    }

    pub(super) fn ledger_with(self: &Arc<Self>, options: impl FnOnce(Builder) -> Builder) -> Ledger {
        let options = options(Ledger::builder("payments")).checked().unwrap();
        Ledger::with(options, Arc::clone(self) as Arc<dyn Transport>, None)
    }
}

impl Transport for Script {
    fn endpoint(&self) -> &'static str {
        "ledger.example:50051"
    }

    fn send(&self, call: Call) -> Boxed<'_, Result<Bytes, Failure>> {
        Box::pin(async move {
            let timeout = call.timeout;
            self.calls.lock().unwrap().push((Instant::now(), call));
            let mut reply =
                self.replies.lock().unwrap().pop_front().expect("nothing is written down for this call");
            let until = Instant::now() + timeout;
            loop {
                reply = match reply {
                    Reply::Answer(answer) => return Ok(answer),
                    Reply::Refuse(failure) => return Err(failure),
                    Reply::After(wait, _) if Instant::now() + wait > until => {
                        tokio::time::sleep_until(until).await;
                        return Err(Failure::local("DEADLINE_EXCEEDED", ""));
                    }
                    Reply::After(wait, then) => {
                        tokio::time::sleep(wait).await;
                        *then
                    }
                };
            }
        })
    }
}
