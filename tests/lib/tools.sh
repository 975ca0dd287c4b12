# shellcheck shell=bash
# Installs what the checks need. Each `need_…` may be called at any time: it returns quickly if nothing is
# missing; as root it installs what is missing; else it prints the command to install it.

CARGO_DENY_VERSION=0.20.2
CARGO_MUTANTS_VERSION=27.1.0
# The checks' own Python environment. README's quick start makes .venv, and that one stays as it is.
VENV=target/venv
PATH=$PWD/$VENV/bin:$PATH:/usr/sbin:/sbin

# present THING: succeeds if it is usable on this machine.
present() {
    case $1 in
        postgres) [[ -n $(postgres_bin) ]] && { ((EUID != 0)) || id postgres >/dev/null 2>&1; } ;;
        mariadbd) command -v mariadbd >/dev/null && { ((EUID != 0)) || id mysql >/dev/null 2>&1; } ;;
        venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

# packages_of THING: prints the Debian packages that contain it.
packages_of() {
    case $1 in
        postgres | psql) say postgresql ;;
        venv) say python3-venv ;;
        cc) say gcc libc6-dev ;;
        systemd-analyze) say systemd ;;
        promtool) say prometheus ;;
        qemu-aarch64-static) say qemu-user-static ;;
        busybox) say busybox-static ;;
        mariadbd) say mariadb-server ;;
        javac) say openjdk-17-jdk-headless ;;
        mvn) say maven ;;
        *) say "$1" ;;
    esac
}

# need THING...: installs all missing packages in one step, or prints how.
need() {
    local thing packages=()
    for thing in "$@"; do
        # shellcheck disable=SC2207 # package names have no spaces; one thing may need two
        present "$thing" || packages+=($(packages_of "$thing"))
    done
    ((${#packages[@]})) || return 0
    if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
        die "missing; install with: sudo apt-get install -y --no-install-recommends ${packages[*]}"
    fi
    say "installing ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    quietly apt-get -q -o DPkg::Lock::Timeout=300 update
    # Run level 1: the packages' own services stay down, the checks start what they need.
    RUNLEVEL=1 quietly apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "${packages[@]}"
    for thing in "$@"; do
        present "$thing" || die "$thing is still missing after installing ${packages[*]}"
    done
}

need_rust() {
    local tool
    for tool in cargo cargo-fmt cargo-clippy; do
        command -v "$tool" >/dev/null || die "$tool is missing; see https://rustup.rs, then: rustup component add rustfmt clippy"
    done
}

# Makes the Python environment of the checks; makes it again when its list of packages changes.
need_venv() {
    need python3 git
    local wanted=(tests/lib/tools.txt tests/python/requirements.txt) stamp
    stamp=$(python3 --version && cat "${wanted[@]}") || die "the lists of Python packages are incomplete"
    [[ -f $VENV/stamp && $(<"$VENV/stamp") == "$stamp" ]] && return 0
    need venv
    say "installing the Python packages into $VENV"
    rm -rf "$VENV" && hash -r
    quietly python3 -m venv "$VENV"
    quietly "$VENV/bin/python" -m pip install --require-hashes -r tests/lib/tools.txt
    quietly "$VENV/bin/python" -m pip install -r tests/python/requirements.txt
    printf '%s\n' "$stamp" >"$VENV/stamp"
}

# cargo_tool NAME VERSION: prints the path of a tool of cargo: on the PATH if it has this version, else in the user's cache, where it
# is built once.
cargo_tool() {
    if [[ $("$1" --version 2>/dev/null) == "$1 $2" ]]; then
        command -v "$1"
    else
        say "${XDG_CACHE_HOME:-$HOME/.cache}/idempotency-ledger/$1-$2/bin/$1"
    fi
}

# need_cargo_tool NAME VERSION: builds it if it is missing.
need_cargo_tool() {
    local path
    path=$(cargo_tool "$1" "$2")
    [[ -x $path ]] && return 0
    need cc
    say "building $1 $2, once: about a minute"
    # Unoptimised: it is built more slowly than it ever runs.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        quietly cargo install "$1" --locked --version "$2" --root "${path%/bin/*}"
}
