use std::{net::SocketAddr, time::Duration};

use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time::timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Code, transport::Server};
use tonic_health::{
    ServingStatus,
    pb::{HealthCheckRequest, health_client::HealthClient},
    server::{HealthReporter, health_reporter},
};

use crate::{
    balance::{Servers, is_unsent},
    connection::Connection,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that knows its own name, as a service of its health.
struct Known {
    name: String,
    address: SocketAddr,
    health: HealthReporter,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Known {
    async fn at(address: SocketAddr, name: &str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (health, service) = health_reporter();
        health.set_service_status(name, ServingStatus::Serving).await;
        health.set_service_status("accepting", ServingStatus::Serving).await;
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(async move {
            let asked = async { drop(stopped.await) };
            let served = Server::builder().add_service(service);
            served.serve_with_incoming_shutdown(TcpListenerStream::new(listener), asked).await.unwrap();
        });
        Self { name: name.to_owned(), address, health, stop, ended }
    }

    async fn new(name: &str) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), name).await
    }

    /// In good order: its connections get GOAWAY.
    async fn stops(self) -> SocketAddr {
        self.health.set_service_status("accepting", ServingStatus::NotServing).await;
        self.stop.send(()).unwrap();
        timeout(PATIENCE, self.ended).await.expect("no client keeps it from ending").unwrap();
        self.address
    }
}

fn servers(known: &[&Known]) -> Servers {
    let list: Vec<String> = known.iter().map(|server| server.address.to_string()).collect();
    Servers::of(Connection::to(format!("ipv4:{}", list.join(","))).target().unwrap())
}

/// The name of the server that gets the next call. `None` where the call fails.
async fn answered<'a>(servers: &Servers, names: &[&'a str]) -> Option<&'a str> {
    let channel = timeout(PATIENCE, servers.channel()).await.expect("a server accepts calls").unwrap();
    for name in names {
        let request = HealthCheckRequest { service: (*name).to_owned() };
        match HealthClient::new(channel.clone()).check(request).await {
            Ok(_) => return Some(name),
            Err(status) if status.code() == Code::NotFound => {}
            Err(_) => return None,
        }
    }
    None
}

/// Waits until this server gets all calls, or each second one.
async fn only(servers: &Servers, names: &[&str], wanted: &str) {
    let all = async {
        loop {
            let two = (answered(servers, names).await, answered(servers, names).await);
            if two == (Some(wanted), Some(wanted)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await; // A condition of other tasks, which send no event.
        }
    };
    timeout(PATIENCE, all).await.unwrap();
}

async fn both(servers: &Servers, names: &[&str; 2]) {
    let all = async {
        loop {
            let two = [answered(servers, names).await, answered(servers, names).await];
            if two.contains(&Some(names[0])) && two.contains(&Some(names[1])) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await; // A condition of other tasks, which send no event.
        }
    };
    timeout(PATIENCE, all).await.unwrap();
}

#[tokio::test]
async fn calls_go_in_turn_to_the_servers_that_accept_them() {
    let (a, b) = (Known::new("a").await, Known::new("b").await);
    let (servers, names) = (servers(&[&a, &b]), ["a", "b"]);
    both(&servers, &names).await;
    // One that drains gets no new calls, and gets them again afterwards.
    a.health.set_service_status("accepting", ServingStatus::NotServing).await;
    only(&servers, &names, "b").await;
    a.health.set_service_status("accepting", ServingStatus::Serving).await;
    both(&servers, &names).await;
}

#[tokio::test]
async fn stopped_server_is_left_out_and_found_again_where_it_was() {
    let (a, b) = (Known::new("a").await, Known::new("b").await);
    let (servers, names) = (servers(&[&a, &b]), ["a", "b"]);
    both(&servers, &names).await;
    let address = a.stops().await;
    only(&servers, &names, &b.name).await;
    let again = Known::at(address, "a").await;
    both(&servers, &names).await;
    drop(again);
}

#[tokio::test]
async fn calls_wait_for_a_server_and_know_why() {
    let free = Known::new("free").await.stops().await;
    let servers = Servers::of(Connection::to(free.to_string()).target().unwrap());
    assert!(timeout(Duration::from_millis(300), servers.channel()).await.is_err());
    assert!(servers.why().contains("refused"), "{}", servers.why());
    let late = Known::at(free, "late").await;
    only(&servers, &["late"], &late.name).await;
}

#[tokio::test]
async fn names_are_looked_up() {
    let a = Known::new("a").await;
    let endpoint = format!("localhost:{}", a.address.port());
    let servers = Servers::of(Connection::to(endpoint).target().unwrap());
    only(&servers, &["a"], &a.name).await;
    let nowhere = Servers::of(Connection::to("nowhere.invalid:1").target().unwrap());
    assert!(timeout(Duration::from_millis(300), nowhere.channel()).await.is_err());
    let why = async {
        while nowhere.why().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, why).await.unwrap();
    assert!(nowhere.why().contains("nowhere.invalid:1 is not found"), "{}", nowhere.why());
}

#[tokio::test]
async fn call_on_a_connection_that_goes_away_is_known_as_not_sent() {
    let (a, b) = (Known::new("a").await, Known::new("b").await);
    let servers = servers(&[&a, &b]);
    both(&servers, &["a", "b"]).await;
    let channels = [servers.channel().await.unwrap(), servers.channel().await.unwrap()];
    a.stops().await;
    let mut unsent = 0;
    for channel in channels {
        let request = HealthCheckRequest { service: "b".to_owned() };
        let answer = HealthClient::new(channel).check(request).await;
        unsent += usize::from(answer.is_err_and(|status| is_unsent(&status)));
    }
    assert_eq!(unsent, 1);
}
