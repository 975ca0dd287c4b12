//! One connection: it begins within its time, carries calls, and ends when its life is over or the server drains.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::until;
use crate::accounts::{Accounts, Answer, CallTasks, ConnectionAccount};
use crate::common::deferred_poll::Gathering;
use crate::identity::Peer;
use crate::listener::fairness::poll_budget::{Turn, Turns};
use crate::listener::fairness::scheduler::Line;
use crate::listener::handshake::Opened;
use crate::listener::io::stream::Stream;
use crate::listener::io::write_buffer::{Outbox, Sends};
use crate::listener::lifetime::{Life, finished, log};
use crate::listener::protocol::Spoken;
use crate::metrics::{Closed, Metrics};

/// Within which time a client must have ended the handshake of TLS, where there is one, and sent the whole preface of
/// HTTP/2, or the first head of HTTP/1.1.
const OPENED_WITHIN: Duration = Duration::from_secs(5);
/// When the server drains: a connection without a call, on which nothing moved for this long, is closed.
/// A client that is there has told by then that it knows of the end, and its connection is closed already.
const QUIET: Duration = Duration::from_millis(500);

/// What each connection has of its own, and what is known of it.
pub(super) struct Terms {
    pub(super) life: Life,
    pub(super) metrics: Metrics,
    pub(super) accounts: Accounts,
    pub(super) line: Line,
    pub(super) closing: CancellationToken,
}

/// Serves a connection until it ends, until its life is over, or until `closing`; and then until the end of its calls.
pub(super) async fn serve<S>(
    opening: impl Future<Output = io::Result<Opened>>,
    service_of: impl FnOnce(Peer, Arc<ConnectionAccount>, CancellationToken) -> S,
    Terms { life, metrics, accounts, line, closing }: Terms,
) where
    S: Service<Request<Incoming>, Response = Response<Answer>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
{
    let Opened { http1, wire, peer, read_before } = match until(&closing, timeout(OPENED_WITHIN, opening))
        .await
    {
        Some(Ok(Ok(opened))) => opened,
        Some(Ok(Err(error))) => return tracing::debug!(%error, "a connection ended before its preface"),
        Some(Err(_)) => {
            metrics.closed(Closed::Opening);
            return tracing::debug!(within = ?OPENED_WITHIN, "a connection did not finish its preface: closed");
        }
        None => return,
    };
    let leaving = CancellationToken::new();
    // One token to look at: it also ends when the server drains.
    let ends = closing.child_token();
    let address = peer.address;
    let account = ConnectionAccount::new(&accounts, address, ends.clone());
    let turn = Turn::new(Arc::clone(&account));
    let outbox = Outbox::new(wire, Arc::clone(&account));
    let stream = Stream::new(outbox.clone(), read_before, turn.clone());
    let service = service_of(peer, Arc::clone(&account), leaving.clone());
    let spoken = if http1 {
        Spoken::http1(stream, service)
    } else {
        Spoken::http2(stream, service, CallTasks::of(&account))
    };
    let connection = Sends::new(spoken, outbox);
    let turns = Turns::new(connection, turn, line, address);
    let mut serving = pin!(Gathering::new(turns, || account.open().calls()));
    let over = async {
        tokio::select! {
            biased;
            () = ends.cancelled() => None,
            why = life.over(account.open()) => Some(why),
        }
    };
    // As one of a set it is looked at only after it was woken, and not in each turn of the connection.
    let mut over = FuturesUnordered::from_iter([over]);
    let why = tokio::select! {
        biased;
        why = over.select_next_some() => why,
        ended = serving.as_mut() => return log(ended),
    };
    // Its account closed it, and logged why.
    if why.is_none() && !closing.is_cancelled() {
        return;
    }
    serving.as_mut().connection().connection().connection().leave();
    if let Some(why) = why {
        metrics.closed(why);
        tracing::debug!(?why, "a connection was told to go");
        let left = life.leave(serving.as_mut(), &account, &leaving);
        if until(&ends, left).await.is_some() || !closing.is_cancelled() {
            return;
        }
    }
    finished(serving, &account, QUIET).await;
}
