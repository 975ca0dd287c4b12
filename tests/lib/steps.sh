# shellcheck shell=bash
# The steps of `tests/run`: each installs the programs that it needs, and fails loudly. No step skips silently.

# In their order: the name, then what the step shows.
# shellcheck disable=SC2034 # for tests/run
STEPS=(
    "tools what the other steps need is there, or gets installed"
    "fmt the Rust code is formatted"
    "proto the protobuf files are clean, formatted, and compatible with the last release"
    "clippy no lint complains"
    "test the tests and the small sizes of the proofs pass, on SQLite and on a separate Postgres"
    "copies the copies of the tree in which bugs are seeded compile"
    "lints no lint complains with the features of other tests, or with none"
    "doc the documentation builds without a broken link"
    "interleavings the batcher answers each call once, under any schedule"
    "deny the dependencies' licences, versions and sources are allowed, no advisory is open"
    "bugs every seeded bug fits the code as it is, and nearly all of them compile"
    "soak all faults at the same time for a minute: every history is linearizable"
    "mesh behind Envoy, and by the service config without it, restarts, kills and lost stores fail no call that need not fail"
    "guard effects in the consumer's own database happen once, in Postgres, SQLite and MariaDB, whichever process is killed or stopped"
    "wire a consumer that only knows the protobuf files works, on SQLite and on Postgres, and so does the quick start"
    "pgbouncer behind PgBouncer the answers are the same and nothing is lost, in session and in transaction mode"
    "readme the commands of the README work as they stand there"
    "operators the first day of an operator, the recipes, the replays and an upgrade, by the command line alone, on SQLite and on Postgres; a restore of Postgres"
    "mutants three seeded bugs, others with every commit, are seen by the suites that claim to cover them"
    "redelivery a broker's redeliveries have one effect, and a run that is not open acknowledges nothing, on SQLite and on Postgres"
    "brokers consumers over a real broker, another one with every commit, are killed, stopped and paused, or replaced one after the other: each message has one effect; one of the tutorials, in turn, shows what it promises"
    "clients two of the client packages, others with every commit: their checks, every rule of a consumer, and two seeded bugs of each"
    "deploy the recipes of deploy/ fit the program, the formats and each other, and start servers that answer"
    "observe alerts fire when they should, and a person sees what happens: by metrics, log lines, the dashboard and the command line"
    "speed an item costs Postgres and the server no more than it may: statements, pages, log, instructions, allocations, as counted"
)

step_tools() {
    need_rust
    need cc make git python3 venv curl openssl postgres mariadbd nats-server pgbouncer jq systemd-analyze prometheus promtool valgrind
    need_venv
    cargo --version
    python --version
    say "buf $(buf --version)"
    tests/lib/go version
    "$(postgres_bin)/initdb" --version
    mariadbd --version
    nats-server --version
}

step_fmt() { cargo fmt --check; }

step_proto() {
    need_venv
    buf lint
    buf format --diff --exit-code
    local tag image=proto/released.binpb
    tag=$(git tag --list 'v[0-9]*' --sort=-version:refname | head -n 1)
    if [[ -f $image ]]; then
        buf breaking --against "$image"
        say "compatible with $image${tag:+ (last release: $tag)}"
    elif [[ -n $tag ]]; then
        die "$tag is released, but $image is missing; make it: git archive $tag proto buf.yaml | buf build -#format=tar -o $image"
    else
        say "no release exists yet: nothing to be compatible with"
    fi
}

step_clippy() { cargo clippy --all-targets --locked --features crash-points -- -D warnings; }

step_lints() {
    cargo clippy --lib --profile test --locked --features shuttle -- -D warnings
    # As a new contributor builds it: without any feature.
    cargo clippy --bin idempotency-ledger --example echo --profile test --locked -- -D warnings
}

step_doc() {
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --locked
    suites_table_is_current
}

step_test() {
    need postgres
    if ! python3 -c 'import pty; pty.openpty()' 2>/dev/null; then
        say "NOT CHECKED: what the command line asks and shows at a terminal (this machine has no pseudo-terminals: is /dev/pts mounted?)"
        export LEDGER_TEST_NO_TERMINALS=1
    fi
    # Most tests wait for leases, disks and timeouts for much of their time: with one thread for each processor a third
    # of the machine would be idle.
    cargo test --locked --features crash-points -- --test-threads "$(($(nproc) + 3))"
}

# Alone: it needs the machine for itself.
step_soak() {
    need postgres
    tests/prove soak --size small
}

# Alone, too. Envoy and Go are among the tools.
step_mesh() {
    need postgres
    need_venv
    tests/prove mesh --size small
    tests/prove direct --size small
    build_as_tested
    on_postgres tests/python/behind_envoy.py
}

step_interleavings() { cargo test --locked --lib --features shuttle interleavings; }

step_mutants() {
    need postgres mariadbd
    need_venv
    tests/prove mutants --rotate 3
}

# Without this step `mutants` would build the copies, while other steps use the machine.
step_copies() { tests/prove mutants --build --rotate 3; }

step_bugs() {
    python3 -m unittest discover --quiet -s tests/lib -p rule_test.py
    tests/prove mutants --compile --most
    need_venv
    python tests/brokers/bugs.py
}

step_wire() {
    need openssl
    on_both_stores tests/python/wire.py
    on_sqlite tests/python/first_minute.py
}

step_pgbouncer() { tests/prove pgbouncer --small; }

step_readme() {
    need_venv
    build_as_tested
    python tests/python/readme.py
}

step_operators() {
    need jq
    on_both_stores tests/python/first_day.py
    on_both_stores tests/python/recipes.py
    on_both_stores tests/python/replays.py
    on_both_stores tests/python/once.py
    on_both_stores tests/python/upgrade.py
    PATH=$(postgres_bin):$PATH python tests/python/database.py --binary "$(server_binary)"
}

step_redelivery() {
    need nats-server
    on_both_stores tests/python/redelivery.py
    on_both_stores tests/python/large_results.py
    on_both_stores tests/python/leftover_run.py
}

step_brokers() {
    need_venv
    build_as_tested
    tests/prove brokers --rotate --size 60 --binary "$(server_binary)"
    # The tutorial in Java is a proof: its JVMs took 395 s on a busy machine, those of Python's 68 s.
    tests/prove tutorial --rotate --binary "$(server_binary)"
}

step_clients() {
    local binary
    need openssl postgres mariadbd
    need_venv
    build_as_tested
    binary=$(server_binary)
    tests/prove clients --checks --rotate 1
    tests/prove clients --rotate 2 --binary "$binary"
    tests/prove clients --bugs --rotate 1 --binary "$binary"
}

# Alone: many processes are stopped for a little longer than their leases.
step_guard() {
    need postgres mariadbd
    need_venv
    tests/prove guard --size small
}

# Builds the program as the tests have it: with the points at which a test may crash it.
# The example makes cargo unify features with those of the dev-dependencies: without it the dependencies would be built a
# second time with fewer features.
build_as_tested() { cargo build --locked --features crash-points --bin idempotency-ledger --example echo; }

on_both_stores() {
    need postgres
    need_venv
    build_as_tested
    # At the same time, since each mostly waits for leases and answers. The output for SQLite is printed when both have ended.
    local sqlite_output code=0
    sqlite_output=$(mktemp)
    (on_sqlite "$1") >"$sqlite_output" 2>&1 &
    on_postgres "$1" || code=$?
    wait $! || code=$?
    cat "$sqlite_output"
    rm -f "$sqlite_output"
    return "$code"
}

step_deploy() {
    need systemd-analyze postgres promtool
    need_venv
    build_as_tested
    on_postgres tests/deploy/check.py
}

step_observe() {
    need postgres prometheus promtool openssl cc
    need_venv
    build_as_tested
    on_postgres tests/observe/check.py
    python tests/observe/incidents.py --binary "$(server_binary)"
}

# Alone: the number of calls that share a statement depends on the load of the machine.
step_speed() { tests/prove counts; }

step_deny() {
    need_cargo_tool cargo-deny "$CARGO_DENY_VERSION"
    local deny reason
    deny=$(cargo_tool cargo-deny "$CARGO_DENY_VERSION")
    "$deny" --locked check --hide-inclusion-graph licenses bans sources
    if reason=$(GIT_TERMINAL_PROMPT=0 timeout 60 "$deny" --locked fetch db 2>&1); then
        "$deny" --locked check --disable-fetch advisories
    else
        reason=$(grep -E '^(fatal|error):' <<<"$reason" | head -n 1 || true)
        say "advisories: NOT CHECKED (the database of advisories cannot be fetched: ${reason:-no answer within 60 s})"
    fi
}
