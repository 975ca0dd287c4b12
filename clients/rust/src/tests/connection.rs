use std::net::SocketAddr;

use crate::connection::{Connection, Places, Target};

fn target(endpoint: &str) -> Target {
    Connection::to(endpoint).target().unwrap()
}

fn listed(target: &Target) -> Vec<SocketAddr> {
    match &target.places {
        Places::Listed(addresses) => addresses.clone(),
        Places::Named(name) => panic!("{name} is a name"),
    }
}

#[test]
fn addresses_and_lists_are_taken_as_they_are() {
    assert_eq!(listed(&target("127.0.0.1:50051")), ["127.0.0.1:50051".parse().unwrap()]);
    assert_eq!(listed(&target("http://[::1]:5/")), ["[::1]:5".parse().unwrap()]);
    let list = target("ipv4:10.0.0.1:1,10.0.0.2:2");
    assert_eq!(listed(&list), ["10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap()]);
    // The list itself would be no name of a server.
    assert_eq!(list.uri.to_string(), "http://ledger/");
}

#[test]
fn names_are_looked_up_and_sent() {
    for endpoint in ["ledger.svc:50051", "dns:///ledger.svc:50051", "http://ledger.svc:50051/"] {
        let found = target(endpoint);
        assert_eq!(found.endpoint, endpoint);
        assert!(matches!(&found.places, Places::Named(name) if name == "ledger.svc:50051"), "{endpoint}");
        assert_eq!(found.uri.to_string(), "http://ledger.svc:50051/");
    }
}

#[test]
#[cfg(feature = "tls")]
fn https_is_tls() {
    assert_eq!(target("https://ledger.svc:443").uri.scheme_str(), Some("https"));
}

#[test]
fn contradictions_and_unreadable_files_name_their_field() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (connection, field) in [
        (Connection::to("ledger"), "endpoint"),
        (Connection::to("ledger:port"), "endpoint"),
        (Connection::to("a:1,b:2"), "endpoint"),
        (Connection::to("unix:/run/ledger"), "endpoint"),
        (Connection::to("ipv4:ledger:1"), "endpoint"),
        (Connection::to("https://ipv4:10.0.0.1:1,10.0.0.2:2"), "endpoint"),
        (Connection::to("http://ledger:1").ca_file(file), "endpoint"),
        (Connection::to("ledger:1").token_file(file), "token_file"),
        (Connection::to("ledger:1").client_cert_files(file, file), "client_cert_file"),
        (Connection::to("https://ledger:1").token_file("/nowhere"), "token_file"),
        (Connection::to("https://ledger:1").ca_file("/nowhere"), "ca_file"),
        (Connection::to("https://ledger:1").client_cert_files(file, "/nowhere"), "client_key_file"),
    ] {
        let error = connection.target().unwrap_err();
        assert_eq!(error.field, field, "{connection:?}: {error}");
    }
}
