//! The middleware of examples/http by the HTTP door: tests/python/idempotency_key.py has the cases. It needs Python's standard
//! library alone.

use std::path::Path;
use std::process::Command;

use crate::process::BINARY;

#[test]
fn idempotency_key_middleware_answers_each_case() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = root.join("tests/python/idempotency_key.py");
    let output = Command::new("python3").arg(script).arg(BINARY).output().expect("python3 is there");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.lines().filter(|line| line.starts_with("ok: ")).count(), 11, "{said}");
    let middleware = std::fs::read_to_string(root.join("examples/http/idempotency.py")).unwrap();
    let lines = middleware.lines().count();
    assert!(lines <= 60, "the middleware has {lines} lines");
}
