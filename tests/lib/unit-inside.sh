#!/usr/bin/env bash
# The part of `tests/prove systemd-unit` that runs under systemd: the commands of deploy/README.md, then the checks of supervision.
set -euo pipefail

fail() {
    printf 'FAILED: %s\n' "$*"
    journalctl --no-pager --quiet --unit idempotency-ledger | tail -n 30
    exit 1
}

# block NUMBER: prints this block of commands of the README's section on systemd.
block() {
    sed -n '/^## systemd/,/^## What is checked/p' deploy/README.md |
        awk -v wanted="$1" '/^```sh$/ { n++; on = 1; next } /^```$/ { on = 0 } on && n == wanted'
}

served() {
    local _
    for _ in {1..100}; do
        idempotency-ledger health >/dev/null 2>&1 && return
        sleep 0.1
    done
    fail "it does not serve"
}

property() { systemctl show --property "$1" --value idempotency-ledger; }
main() { property MainPID; }

# As it is installed, on SQLite. The last line of the block asks immediately, perhaps too early.
block 1 | sed '$d' | bash -eux || fail "it does not start"
served
echo "installed as README.md says, and it serves"
idempotency-ledger policy set payments --lease 2m --reason proof >/dev/null

# It notifies systemd that it serves, and that it lives.
[[ $(property Type) == notify && $(property SubState) == running ]] || fail "it has not notified systemd that it serves"
heard=$(property WatchdogTimestampMonotonic)
for _ in {1..40}; do
    [[ $(property WatchdogTimestampMonotonic) == "$heard" ]] || break
    sleep 1
done
[[ $(property WatchdogTimestampMonotonic) != "$heard" ]] || fail "systemd does not hear that it lives"
echo "systemd hears that it serves, and that it lives"

# The privileges that systemd removed.
status=/proc/$(main)/status
grep -Eq '^Uid:\s+[1-9]' "$status" || fail "it runs as root"
grep -Eq '^NoNewPrivs:\s+1$' "$status" || fail "it may get new privileges"
grep -Eq '^Seccomp:\s+2$' "$status" || fail "its system calls are not filtered"
grep -Eq '^CapBnd:\s+0+$' "$status" || fail "it has capabilities"
[[ $(stat -c %a "/proc/$(main)/cwd/data/ledger.db") == 600 ]] || fail "others may read the ledger"
echo "it runs as a separate user, without privileges, its system calls filtered"

began=$SECONDS
systemctl stop idempotency-ledger
[[ $(property Result) == success && $(property ExecMainStatus) == 0 ]] || fail "it did not end in good order: $(property Result)"
echo "stopped in good order after $((SECONDS - began)) s"

systemctl start idempotency-ledger
served
kill -KILL "$(main)"
until [[ $(property NRestarts) == 1 ]]; do sleep 0.1; done
served
idempotency-ledger policy list | grep -q '^payments .* 2m ' || fail "the policy is lost"
echo "killed: it was started again, and has what it had"

# A Postgres: the URL, the password, the schema, the server.
systemctl start postgresql
until su postgres -c "psql -Xqc 'select 1'" >/dev/null 2>&1; do sleep 0.2; done
su postgres -c "psql -Xqc \"create role ledger login password 'proof'\" -c 'create database ledger owner ledger'"
sed -i 's|^#\(IDEMPOTENCY_LEDGER_DATABASE_URL\)=.*|\1=postgres://ledger@127.0.0.1/ledger|' /etc/idempotency-ledger/environment
install -m 600 /dev/null /etc/idempotency-ledger/database_password
printf 'proof\n' >/etc/idempotency-ledger/database_password
block 2 | bash -eux || fail "its credentials are not installed"
systemctl restart idempotency-ledger || true
sleep 1
idempotency-ledger health >/dev/null 2>&1 && fail "it serves on a database without a schema"
block 3 | bash -eux || fail "it is not migrated"
systemctl reset-failed idempotency-ledger
systemctl restart idempotency-ledger
served
journalctl --no-pager --quiet --unit idempotency-ledger | grep -q 'it stores in the Postgres database' || fail "it does not use Postgres"
echo "moved to Postgres: migrated as README.md says, and it serves"

# Beyond loopback it demands a source of identity.
sed -i 's|^#\(IDEMPOTENCY_LEDGER_LISTEN\)=.*|\1=0.0.0.0:50051|' /etc/idempotency-ledger/environment
systemctl restart idempotency-ledger || true
sleep 1
idempotency-ledger health >/dev/null 2>&1 && fail "it listens beyond loopback without a source of identity"
idempotency-ledger rights token operators 2>&1 >/root/token | { echo '[tokens]'; tail -n 1; } >/etc/idempotency-ledger/tokens.toml
cp deploy/compose/rights.toml /etc/idempotency-ledger
chmod 644 /etc/idempotency-ledger/*.toml
sed -Ei 's,^#(IDEMPOTENCY_LEDGER_(TOKENS|RIGHTS)_FILE)=,\1=,' /etc/idempotency-ledger/environment
systemctl reset-failed idempotency-ledger
systemctl restart idempotency-ledger
served
idempotency-ledger policy list >/dev/null 2>&1 && fail "it serves who shows no token"
idempotency-ledger policy list --token-file /root/token >/dev/null || fail "it does not know the token"
echo "it listens where others reach it, and serves the holder of a token alone"
systemctl stop idempotency-ledger
[[ $(property Result) == success ]] || fail "it did not end in good order: $(property Result)"
echo PROVED
