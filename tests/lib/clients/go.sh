# shellcheck shell=bash
# What the client package for Go, its subject and its checks need: the toolchain that tests/lib/go.txt pins. Every module has
# its version and its content in a go.sum.

# shellcheck source=tests/lib/go-tools.sh
declare -F need_go >/dev/null || source tests/lib/go-tools.sh

# need_client_go: makes go and gofmt of that toolchain the first ones of the PATH.
need_client_go() {
    # The race detector of the unit tests links C.
    need cc
    need_go
    local root
    root=$(GOTOOLCHAIN=local "$GO" env GOROOT)
    PATH=$root/bin:$PATH
    # No other toolchain is fetched, and git is not asked about the tree.
    export PATH GOTOOLCHAIN=local GOFLAGS=-buildvcs=false
}
