#!/usr/bin/env bash
# Runs the steps of a new contributor on a bare machine, from a fresh clone: the quick start, then all checks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/say.sh

# of_readme NAME: prints the README's block of commands that is marked `run: NAME`.
of_readme() {
    sed -n "/^<!-- run: $1 -->\$/,/^\`\`\`\$/p" README.md | sed '1,2d; $d' | grep .
}

say "== the quick start =="
export DEBIAN_FRONTEND=noninteractive
quietly apt-get -q update
quietly apt-get -q -y install --no-install-recommends curl make python3-venv
serve=$(of_readme serve) try=$(of_readme try) claim=$(of_readme claim) look=$(of_readme look)
say "building: $serve"
bash -c "exec $serve" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
until (: <>/dev/tcp/127.0.0.1/50051) 2>/dev/null; do
    kill -0 "$server" 2>/dev/null || die "the server ended before it listened"
    sleep 0.2
done
say "listening, after $SECONDS s"
bash -euc "$try"
bash -euc "$claim"
bash -euc "$look"
kill "$server"
wait "$server" || die "the server did not stop in good order"
trap - EXIT

say "== all checks =="
installed=$(.venv/bin/pip freeze)
tests/run
[[ $(.venv/bin/pip freeze) == "$installed" ]] || die "the checks have changed the newcomer's .venv"
