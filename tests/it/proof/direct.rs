//! Clients that reach three servers themselves, by nothing but the shipped service config, with grpcio and with grpc-go:
//! servers are restarted and killed under them. tests/direct has the suite and its clients.

use super::in_python;
use super::run::Run;

#[test]
#[ignore = "it needs Python, Go and the machine for itself: `tests/run mesh`"]
fn the_service_config_bears_restarts_and_kills() {
    in_python::run(&Run::new("direct", 3), "tests/direct/suite.py");
}
