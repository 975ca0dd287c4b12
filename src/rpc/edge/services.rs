//! Routes a call by its path to its service.

use std::convert::Infallible;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tower::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The future that generated services return. It is boxed, since the futures around it are moved often.
type Answer = BoxFuture<'static, Result<Response<Body>, Infallible>>;

/// The services of a server. Nearly all calls are of the first service, which is found by its name; a router
/// finds the others, and boxes the body of each call three times.
pub(crate) struct Services<F> {
    first: Option<F>,
    others: Routes,
}

impl<F: NamedService> Services<F> {
    /// Without a first service where only operators are served.
    pub(crate) fn new(first: Option<F>, others: Routes) -> Services<F> {
        Services { first, others }
    }

    /// A path is `/SERVICE/METHOD`.
    fn is_of_first(path: &str) -> bool {
        let method = path.strip_prefix('/').and_then(|path| path.strip_prefix(F::NAME));
        method.is_some_and(|method| method.starts_with('/'))
    }
}

impl<F, B> Service<Request<B>> for Services<F>
where
    F: Service<Request<B>, Response = Response<Body>, Error = Infallible, Future = Answer> + NamedService,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // The router is ready at any time.
        self.first.as_mut().map_or(Poll::Ready(Ok(())), |first| first.poll_ready(context))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match &mut self.first {
            Some(first) if Self::is_of_first(request.uri().path()) => first.call(request),
            Some(_) | None => Box::pin(self.others.call(request)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NamedTestService;

    impl NamedService for NamedTestService {
        const NAME: &'static str = "a.v1.Service";
    }

    #[test]
    fn service_is_found_by_its_whole_name() {
        for (path, found) in [
            ("/a.v1.Service/Claim", true),
            ("/a.v1.Service/", true),
            ("/a.v1.Service", false),
            ("/a.v1.ServiceAdmin/Claim", false),
            ("/a.v1.Servic/Claim", false),
            ("a.v1.Service/Claim", false),
            ("//a.v1.Service/Claim", false),
            ("", false),
        ] {
            assert_eq!(Services::<NamedTestService>::is_of_first(path), found, "{path:?}");
        }
    }
}
