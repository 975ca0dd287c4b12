#!/usr/bin/env bash
# Runs in a bare root without a compiler: installs one artifact, serves by it, and makes a first claim.
#
#   release-inside.sh deb|wheel|client|npm FOLDER     the artifacts lie in FOLDER
set -euo pipefail
kind=$1 dist=$2
export DEBIAN_FRONTEND=noninteractive

say() { printf '%s\n' "$*"; }

# first_claim COMMAND...: migrates and serves a new SQLite file, makes a first claim, and stops cleanly.
first_claim() {
    local home server code=0
    home=$(mktemp -d)
    cd "$home"
    "$@" migrate --database-url "sqlite://$home/ledger.db" >/dev/null
    "$@" serve --database-url "sqlite://$home/ledger.db" >"$home/out" 2>&1 &
    server=$!
    until "$@" health >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || { cat "$home/out" >&2; exit 1; }
        sleep 0.1
    done
    "$@" try
    kill -TERM "$server"
    wait "$server" || code=$?
    ((code == 0)) || { say "the server ended with $code" >&2; cat "$home/out" >&2; exit 1; }
}

if command -v gcc cc; then say "this root has a compiler, so it proves nothing" >&2; exit 1; fi
case $kind in
    deb)
        dpkg -i "$dist"/idempotency-ledger_*_amd64.deb
        [[ $(stat -c '%U %a' /etc/idempotency-ledger/environment) == "root 600" ]]
        ls /usr/share/man/man1/idempotency-ledger-entries.1.gz /usr/share/bash-completion/completions/idempotency-ledger
        first_claim idempotency-ledger
        echo '# mine' >>/etc/idempotency-ledger/environment
        dpkg -r idempotency-ledger
        grep -q mine /etc/idempotency-ledger/environment || { say "a removal took the settings" >&2; exit 1; }
        dpkg -P idempotency-ledger
        [[ ! -e /etc/idempotency-ledger/environment && ! -e /usr/bin/idempotency-ledger ]]
        ;;
    wheel)
        python3 -m venv /tmp/venv
        began=$(date +%s%N)
        /tmp/venv/bin/pip install --quiet --no-index --find-links "$dist" idempotency-ledger
        first_claim /tmp/venv/bin/idempotency-ledger
        ended=$(date +%s%N)
        /tmp/venv/bin/python -c 'from idempotency_ledger_server import program; print(program())'
        say "first claim from the wheel: $(((ended - began) / 1000000)) ms"
        ;;
    client)
        # The package for Python together with the program, as tests of users have them; gRPC's libraries come from the index.
        python3 -m venv /tmp/client
        began=$(date +%s%N)
        /tmp/client/bin/pip install --quiet --find-links "$dist" --find-links "$dist/clients" "idempotency-ledger-client[server]"
        /tmp/client/bin/python - <<'PYTHON'
import json
import subprocess

from idempotency_ledger import Advice, Connection, Key, Ledger
from idempotency_ledger_server import program

command = [program(), "serve", "--ephemeral", "--listen", "127.0.0.1:0"]
with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
    address = json.loads(server.stdout.readline())["listen"]
    effects = []
    with Ledger("release", Connection(address)) as ledger:
        for _ in range(2):
            outcome = ledger.process(Key.of("shop", "order-1"), lambda claim: effects.append(claim.token) or b"paid")
            assert outcome.advice is Advice.ACK, outcome
    assert len(effects) == 1, effects
    server.terminate()
    assert server.wait(30) == 0
PYTHON
        ended=$(date +%s%N)
        say "first message by the client package: $(((ended - began) / 1000000)) ms"
        ;;
    npm)
        mkdir -p /tmp/project && cd /tmp/project
        npm() { node /opt/npm/bin/npm-cli.js "$@"; }
        npm init --yes >/dev/null
        began=$(date +%s%N)
        npm install --silent --no-audit --no-fund --offline "$dist"/idempotency-ledger-linux-x64-*.tgz "$dist"/idempotency-ledger-[0-9]*.[0-9].tgz
        first_claim /tmp/project/node_modules/.bin/idempotency-ledger
        ended=$(date +%s%N)
        node -p 'require("/tmp/project/node_modules/idempotency-ledger").program()'
        say "first claim from the npm package: $(((ended - began) / 1000000)) ms"
        ;;
    *) say "unknown: $kind" >&2 && exit 2 ;;
esac
