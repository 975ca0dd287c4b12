# shellcheck shell=bash
# A Postgres cluster to throw away. Postgres refuses to run as root: root starts it as `postgres`.

# Prints the folder of the server's programs: IDEMPOTENCY_LEDGER_TEST_PG_BIN, else the newest installed, else that
# on the PATH. Prints nothing if Postgres is not installed.
postgres_bin() {
    local newest
    newest=$(find /usr/lib/postgresql/*/bin -name initdb 2>/dev/null | sort -V | tail -n 1)
    newest=${newest:-$(command -v initdb || true)}
    say "${IDEMPOTENCY_LEDGER_TEST_PG_BIN:-${newest%/initdb}}"
}

# as_postgres COMMAND...: runs the command as a user that may run Postgres, in a folder that every user may enter.
as_postgres() {
    if ((EUID == 0)); then
        (cd / && exec setpriv --reuid postgres --regid postgres --clear-groups "$@")
    else
        "$@"
    fi
}

free_port() { python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Starts a cluster and sets POSTGRES_URL. The cluster ends with this shell, or by postgres_stop.
postgres_start() {
    local bin password port options
    bin=$(postgres_bin)
    POSTGRES_HOME=$(mktemp -d /tmp/ledger-postgres.XXXXXX)
    trap postgres_stop EXIT
    password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    printf '%s\n' "$password" >"$POSTGRES_HOME/password"
    ((EUID != 0)) || chown -R postgres: "$POSTGRES_HOME"
    quietly as_postgres "$bin/initdb" --pgdata "$POSTGRES_HOME/data" --username postgres \
        --auth scram-sha-256 --pwfile "$POSTGRES_HOME/password" --encoding UTF8 --no-locale --no-sync
    port=$(free_port)
    options="-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories=$POSTGRES_HOME"
    if ! quietly as_postgres "$bin/pg_ctl" --pgdata "$POSTGRES_HOME/data" --log "$POSTGRES_HOME/log" \
        --options "$options" --wait start; then
        as_postgres cat "$POSTGRES_HOME/log" >&2
        die "Postgres did not start ($bin)"
    fi
    # shellcheck disable=SC2034 # for the caller
    POSTGRES_URL=postgres://postgres:$password@127.0.0.1:$port/postgres
}

postgres_stop() {
    [[ -n ${POSTGRES_HOME:-} ]] || return 0
    as_postgres "$(postgres_bin)/pg_ctl" --pgdata "$POSTGRES_HOME/data" --mode immediate stop >/dev/null 2>&1 || true
    rm -rf "$POSTGRES_HOME"
    POSTGRES_HOME=
}
