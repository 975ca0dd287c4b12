//! A connection's service, as the library of HTTP/2 calls it.

use std::cell::RefCell;
use std::convert::Infallible;

use http::{Request, Response};
use hyper::body::Incoming;
use tower::Service;

use crate::rpc::edge::account::Answer;

/// Calls begin one after the other: none needs a clone of the service.
pub(super) struct Calls<S>(RefCell<S>);

impl<S> Calls<S> {
    pub(super) fn of(service: S) -> Calls<S> {
        Calls(RefCell::new(service))
    }
}

impl<S> hyper::service::Service<Request<Incoming>> for Calls<S>
where
    S: Service<Request<Incoming>, Response = Response<Answer>, Error = Infallible>,
{
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = S::Future;

    fn call(&self, request: Request<Incoming>) -> S::Future {
        // The routes and the layer above them are ready at any time.
        self.0.borrow_mut().call(request)
    }
}
