//! The service of a connection, as hyper calls it.

use std::cell::RefCell;
use std::convert::Infallible;

use http::{Request, Response};
use hyper::body::Incoming;
use tower::Service;

use crate::accounts::AnswerBody;
use crate::listener::protocol::http1_heads::Refusal;

/// A service in a `RefCell`: hyper begins calls one after the other, so that no call needs a clone of it.
pub(in crate::listener) struct HyperService<S> {
    service: RefCell<S>,
    /// For HTTP/1.1: set if a head was refused, and the request replaces it.
    refusal: Option<Refusal>,
}

impl<S> HyperService<S> {
    pub(in crate::listener) fn of(service: S) -> HyperService<S> {
        HyperService { service: RefCell::new(service), refusal: None }
    }

    pub(in crate::listener) fn validated(service: S, refusal: Refusal) -> HyperService<S> {
        HyperService { service: RefCell::new(service), refusal: Some(refusal) }
    }
}

impl<S> hyper::service::Service<Request<Incoming>> for HyperService<S>
where
    S: Service<Request<Incoming>, Response = Response<AnswerBody>, Error = Infallible>,
{
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = S::Future;

    fn call(&self, mut request: Request<Incoming>) -> S::Future {
        if let Some(bad) = self.refusal.as_ref().and_then(|refusal| refusal.get()) {
            request.extensions_mut().insert(*bad);
        }
        // The routes and the layer above them are always ready.
        self.service.borrow_mut().call(request)
    }
}
