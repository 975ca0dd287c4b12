# shellcheck shell=bash
# How the scripts speak: one voice, and no output lost.

# Prints one line of news.
say() { printf '%s\n' "$*"; }

# Ends with a reason; a reason may be a command that mends it.
die() {
    printf '%s: %s\n' "tests/${0##*/}" "$*" >&2
    exit 1
}

# quietly COMMAND...: its output is shown only when it fails.
quietly() {
    local log code=0
    log=$(mktemp)
    "$@" >"$log" 2>&1 || code=$?
    ((code == 0)) || cat "$log" >&2
    rm -f "$log"
    return "$code"
}

# closing_line PASSED FAILED: the last line of a run, for people and for machines that count.
closing_line() { printf '%d passed, %d failed\n' "$1" "$2"; }
