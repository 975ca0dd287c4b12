//! One connection: its handshake within a time limit, its calls, and its end by age, idle time or the server's drain.

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
use crate::accounts::{Accounts, AnswerBody, CallTasks, ConnectionAccount};
use crate::common::deferred_poll::DeferredPoll;
use crate::common::log_limit::warn_once_a_second;
use crate::identity::Peer;
use crate::listener::fairness::poll_budget::{BudgetedConnection, PollBudget};
use crate::listener::fairness::scheduler::ReadScheduler;
use crate::listener::handshake::{Mismatch, ReadyConnection};
use crate::listener::io::stream::Stream;
use crate::listener::io::write_buffer::{FlushedConnection, WriteBuffer};
use crate::listener::lifetime::{Lifetime, finished, log};
use crate::listener::protocol::HttpConnection;
use crate::metrics::{Closed, Metrics};

/// Time limit of the TLS handshake, if there is one, and of the whole HTTP/2 preface or the first HTTP/1.1 head. Without it
/// a client that sends nothing keeps a permit for ever, and one of them made the drain take all of `drain_max`
/// (`edge::silence`).
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// While the server drains, a connection without a call on which no byte moved for this long is closed. A client that is
/// alive has acknowledged the GOAWAY by then, and its connection is closed already.
const SILENT_MAX_DRAINING: Duration = Duration::from_millis(500);

/// The settings and shared state that a connection needs.
pub(super) struct ConnectionContext {
    pub(super) lifetime: Lifetime,
    pub(super) metrics: Metrics,
    pub(super) accounts: Accounts,
    pub(super) scheduler: ReadScheduler,
    pub(super) closing: CancellationToken,
}

/// Serves a connection until it ends, until its lifetime is over, or until `closing`; then until its calls have ended.
pub(super) async fn serve<S>(
    opening: impl Future<Output = io::Result<ReadyConnection>>,
    service_of: impl FnOnce(Peer, Arc<ConnectionAccount>, CancellationToken) -> S,
    ConnectionContext { lifetime, metrics, accounts, scheduler, closing }: ConnectionContext,
) where
    S: Service<Request<Incoming>, Response = Response<AnswerBody>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
{
    let ReadyConnection { http1, socket, peer, read_before } = match until(
        &closing,
        timeout(HANDSHAKE_WITHIN, opening),
    )
    .await
    {
        Some(Ok(Ok(opened))) => opened,
        Some(Ok(Err(error))) if Mismatch::is(&error) => {
            warn_once_a_second!(%error, "a connection ended before its preface");
            return;
        }
        Some(Ok(Err(error))) => return tracing::debug!(%error, "a connection ended before its preface"),
        Some(Err(_)) => {
            metrics.closed(Closed::Opening);
            return tracing::debug!(within = ?HANDSHAKE_WITHIN, "a connection did not finish its preface: closed");
        }
        None => return,
    };
    let leaving = CancellationToken::new();
    // One token to poll: it also ends when the server drains.
    let ends = closing.child_token();
    let address = peer.address;
    let account = ConnectionAccount::new(&accounts, address, ends.clone());
    let budget = PollBudget::new(Arc::clone(&account));
    let buffer = WriteBuffer::new(socket, Arc::clone(&account));
    let stream = Stream::new(buffer.clone(), read_before, budget.clone());
    let service = service_of(peer, Arc::clone(&account), leaving.clone());
    let http = if http1 {
        HttpConnection::http1(stream, service)
    } else {
        HttpConnection::http2(stream, service, CallTasks::of(&account))
    };
    let connection = FlushedConnection::new(http, buffer);
    let budgeted = BudgetedConnection::new(connection, budget, scheduler, address);
    let mut serving = pin!(DeferredPoll::new(budgeted, || account.open().calls()));
    let over = async {
        tokio::select! {
            biased;
            () = ends.cancelled() => None,
            why = lifetime.expired(account.open()) => Some(why),
        }
    };
    // A set polls its member only after a wake-up, and not with each poll of the connection: its token takes a lock and its
    // timer looks at the clock.
    let mut over = FuturesUnordered::from_iter([over]);
    let why = tokio::select! {
        biased;
        why = over.select_next_some() => why,
        ended = serving.as_mut() => return log(ended),
    };
    // Its account closed it, and logged the reason.
    if why.is_none() && !closing.is_cancelled() {
        return;
    }
    serving.as_mut().connection().connection().connection().graceful_shutdown();
    if let Some(why) = why {
        metrics.closed(why);
        tracing::debug!(?why, "a connection is asked to end");
        let left = lifetime.drain(serving.as_mut(), &account, &leaving);
        if until(&ends, left).await.is_some() || !closing.is_cancelled() {
            return;
        }
    }
    finished(serving, &account, SILENT_MAX_DRAINING).await;
}
