# shellcheck shell=bash
# Messages of the scripts, in one form.

# Prints one line.
say() { printf '%s\n' "$*"; }

# Prints the reason and exits with 1; the reason may contain the command that helps.
die() {
    printf '%s: %s\n' "tests/${0##*/}" "$*" >&2
    exit 1
}

# quietly COMMAND...: runs the command, and prints its output only if it fails.
quietly() {
    local log code=0
    log=$(mktemp)
    "$@" >"$log" 2>&1 || code=$?
    ((code == 0)) || cat "$log" >&2
    rm -f "$log"
    return "$code"
}

# closing_line PASSED FAILED: prints the last line of a run, for people and for programs that count.
closing_line() { printf '%d passed, %d failed\n' "$1" "$2"; }
