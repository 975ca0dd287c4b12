//! A connection's service, as the library of HTTP calls it.

use std::cell::RefCell;
use std::convert::Infallible;

use http::{Request, Response};
use hyper::body::Incoming;
use tower::Service;

use crate::accounts::Answer;
use crate::listener::protocol::http1_heads::Refusal;

/// Calls begin one after the other: none needs a clone of the service.
pub(in crate::listener) struct Calls<S> {
    service: RefCell<S>,
    /// Of HTTP/1.1: whether a head was refused, in whose place a request stands then.
    refusal: Option<Refusal>,
}

impl<S> Calls<S> {
    pub(in crate::listener) fn of(service: S) -> Calls<S> {
        Calls { service: RefCell::new(service), refusal: None }
    }

    pub(in crate::listener) fn judged(service: S, refusal: Refusal) -> Calls<S> {
        Calls { service: RefCell::new(service), refusal: Some(refusal) }
    }
}

impl<S> hyper::service::Service<Request<Incoming>> for Calls<S>
where
    S: Service<Request<Incoming>, Response = Response<Answer>, Error = Infallible>,
{
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = S::Future;

    fn call(&self, mut request: Request<Incoming>) -> S::Future {
        if let Some(bad) = self.refusal.as_ref().and_then(|refusal| refusal.get()) {
            request.extensions_mut().insert(*bad);
        }
        // The routes and the layer above them are ready at any time.
        self.service.borrow_mut().call(request)
    }
}
