# shellcheck shell=bash
# Runs scripts in Python, which use the server as its users do, against a real server.

# Prints the path of the server's program, built from this tree.
server_binary() {
    local target
    target=$(cargo metadata --format-version 1 --no-deps --locked |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
    say "$target/debug/idempotency-ledger"
}

# on_sqlite SCRIPT: runs the script against a server over a new SQLite file.
on_sqlite() {
    local home binary code=0
    binary=$(server_binary)
    home=$(mktemp -d)
    say "$1 on SQLite"
    python "$1" --binary "$binary" --database-url "sqlite://$home/ledger.db" || code=$?
    rm -rf "$home"
    return "$code"
}

# on_postgres SCRIPT: runs the script against a server over a new cluster.
on_postgres() {
    local binary code=0
    binary=$(server_binary)
    postgres_start
    say "$1 on Postgres"
    python "$1" --binary "$binary" --database-url "$POSTGRES_URL" || code=$?
    postgres_stop
    return "$code"
}
