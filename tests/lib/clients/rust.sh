# shellcheck shell=bash
# What the build, the subject and the checks of clients/rust need. Sourced after tests/lib/tools.sh.

# ring and the SQLite of the guard are compiled from C.
need_client_rust() {
    need_rust
    need cc
}
