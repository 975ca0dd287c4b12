//! Effects in the consumer's own database, with the guard of the Python package: consumers of `examples/guard` are killed and
//! stopped, entries redriven by force and purged, and each message has one effect. tests/guard has the suite.

use super::in_python;
use super::run::Run;

#[test]
#[ignore = "it needs Python, MariaDB and the machine for itself: `tests/run guard`"]
fn an_effect_beside_its_guard_happens_once() {
    in_python::run(&Run::new("guard", 24), "tests/guard/suite.py");
}
