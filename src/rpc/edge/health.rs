//! `grpc.health.v1.Health`, by its specification: Watch of an unknown service answers `SERVICE_UNKNOWN` and
//! stays open; every stream ends when the server drains.

use std::collections::BTreeMap;
use std::pin::Pin;

use futures_util::{Stream, stream};
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// The process is alive, whatever the state of its store: for restarts.
const LIVENESS: &str = "liveness";
/// The server has started and does not drain, whatever the state of its store: a lost store is lost for every
/// replica, and errors then keep their reason. For Kubernetes' readiness and for clients' health checks.
const ACCEPTING: &str = "accepting";

/// The answers of the health service; cheap to clone.
#[derive(Clone)]
pub(crate) struct HealthState {
    statuses: watch::Sender<Statuses>,
}

#[derive(Clone)]
struct Statuses {
    by_service: BTreeMap<&'static str, ServingStatus>,
    /// Final: what the probe of the store finds later changes nothing.
    draining: bool,
    ended: bool,
}

impl HealthState {
    /// The server accepts calls; its store has not been probed yet. The empty name is the whole server.
    pub(crate) fn new(services: &[&'static str]) -> HealthState {
        let mut by_service: BTreeMap<_, _> =
            services.iter().map(|name| (*name, ServingStatus::NotServing)).collect();
        by_service.insert("", ServingStatus::NotServing);
        by_service.insert(LIVENESS, ServingStatus::Serving);
        by_service.insert(ACCEPTING, ServingStatus::Serving);
        HealthState { statuses: watch::Sender::new(Statuses { by_service, draining: false, ended: false }) }
    }

    /// Sets whether the server can serve: the empty name and the services. No effect on a server that drains.
    pub(crate) fn set_serving(&self, serving: bool) {
        let now = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        self.statuses.send_modify(|statuses| {
            if !statuses.draining {
                statuses.set(now, |name| name != LIVENESS && name != ACCEPTING);
            }
        });
    }

    /// The server drains: only its process is alive.
    pub(crate) fn drain(&self) {
        self.statuses.send_modify(|statuses| {
            statuses.draining = true;
            statuses.set(ServingStatus::NotServing, |name| name != LIVENESS);
        });
    }

    /// Ends every Watch stream: an open one would keep the server from closing.
    pub(crate) fn end(&self) {
        self.statuses.send_modify(|statuses| statuses.ended = true);
    }
}

impl Statuses {
    fn set(&mut self, now: ServingStatus, whose: impl Fn(&str) -> bool) {
        for (_, status) in self.by_service.iter_mut().filter(|(name, _)| whose(name)) {
            *status = now;
        }
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl Health for HealthState {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        match self.statuses.borrow().by_service.get(service.as_str()) {
            Some(status) => Ok(Response::new(response(*status))),
            None => Err(Status::not_found("unknown service")),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let service = request.into_inner().service;
        let start = (self.statuses.subscribe(), service, None);
        let changes = stream::unfold(start, |(mut statuses, service, last)| async move {
            loop {
                let (now, ended) = {
                    let seen = statuses.borrow_and_update();
                    let now = seen.by_service.get(service.as_str()).copied();
                    (now.unwrap_or(ServingStatus::ServiceUnknown), seen.ended)
                };
                if last != Some(now) {
                    return Some((Ok(response(now)), (statuses, service, Some(now))));
                }
                if ended || statuses.changed().await.is_err() {
                    return None;
                }
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn server_that_drains_does_not_serve_again() {
        let health = HealthState::new(&["a.Service"]);
        for (event, happens, serving) in [
            ("the start", (|_| {}) as fn(&HealthState), [LIVENESS, ACCEPTING].as_slice()),
            ("the store answers", |health| health.set_serving(true), &["", "a.Service", LIVENESS, ACCEPTING]),
            ("the store is lost", |health| health.set_serving(false), &[LIVENESS, ACCEPTING]),
            ("the drain", HealthState::drain, &[LIVENESS]),
            ("the store answers again", |health| health.set_serving(true), &[LIVENESS]),
        ] {
            happens(&health);
            for name in ["", "a.Service", LIVENESS, ACCEPTING] {
                let asked = Request::new(HealthCheckRequest { service: name.to_owned() });
                let status = health.check(asked).await.unwrap().into_inner().status();
                assert_eq!(
                    status == ServingStatus::Serving,
                    serving.contains(&name),
                    "{name:?} after {event}"
                );
            }
        }
    }
}
