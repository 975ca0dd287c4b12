#!/usr/bin/env bash
# What a newcomer does on a bare machine, from a fresh clone: the quick start, then all checks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/say.sh

say "== the quick start =="
export DEBIAN_FRONTEND=noninteractive
quietly apt-get -q update
quietly apt-get -q -y install --no-install-recommends make python3-venv
say "building: cargo run --release -- serve"
cargo run --release --locked -- serve &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
until (: <>/dev/tcp/127.0.0.1/50051) 2>/dev/null; do
    kill -0 "$server" 2>/dev/null || die "the server ended before it listened"
    sleep 0.2
done
say "listening, after $SECONDS s"
quietly python3 -m venv .venv
quietly .venv/bin/pip install grpcio-tools
.venv/bin/python examples/quickstart.py
kill "$server"
wait "$server" || die "the server did not stop in good order"
trap - EXIT

say "== all checks =="
installed=$(.venv/bin/pip freeze)
tests/run
[[ $(.venv/bin/pip freeze) == "$installed" ]] || die "the checks have changed the newcomer's .venv"
