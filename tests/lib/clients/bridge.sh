# shellcheck shell=bash
# What the bridge needs: a program of the package for Go.

# shellcheck source=tests/lib/clients/go.sh
declare -F need_client_go >/dev/null || source tests/lib/clients/go.sh

need_client_bridge() { need_client_go; }
