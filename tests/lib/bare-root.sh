# shellcheck shell=bash
# A minimal Debian in a folder, ROOT, that reaches the network as this machine does.

# Fills ROOT with Debian 12's essential packages and the few named.
bare_root_make() {
    local mirror
    mirror=$(debian_sources | sed -n 's/^deb \([^ ]*\) bookworm main$/\1/p' | head -n 1)
    # No mirror known here: debootstrap has its own.
    quietly debootstrap --variant=minbase --include="$1" bookworm "$ROOT" ${mirror:+"$mirror"}
    bare_root_apt
    bare_root_network
}

# Copies this machine's apt sources of Debian 12.
debian_sources() {
    # shellcheck disable=SC2016 # apt-get fills these in
    apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        grep -E ' bookworm(-updates|-security)? ' | sort -u || true
}

bare_root_apt() {
    local sources
    sources=$(debian_sources)
    [[ -z $sources ]] || printf '%s\n' "$sources" >"$ROOT/etc/apt/sources.list"
    apt-config dump | grep -E '^Acquire::(https?|ftp|Check-|Retries|ForceIPv)' >"$ROOT/etc/apt/apt.conf.d/99host" || true
    carry /etc/apt/auth.conf /etc/apt/auth.conf.d
}

# Copies name resolution, certificates, and the settings of pip and cargo.
bare_root_network() {
    local name value
    carry /etc/resolv.conf /etc/hosts /usr/local/share/ca-certificates /etc/ssl/certs/ca-certificates.crt
    carry /etc/pip.conf "$HOME/.pip/pip.conf" "$HOME/.config/pip/pip.conf"
    carry "${CARGO_HOME:-$HOME/.cargo}/config.toml"
    for name in $(network_variables); do
        value=${!name}
        # A variable may name a file or a folder; where the root has its own, that one stays.
        [[ $value == /* && ! -e $ROOT$value ]] && carry "$value"
    done
    quietly chroot "$ROOT" update-ca-certificates
}

# carry PATH...: copies what exists here to the same place in ROOT.
carry() {
    local path
    for path in "$@"; do
        [[ -e $path ]] || continue
        mkdir -p "$ROOT${path%/*}"
        rm -rf "${ROOT:?}$path"
        cp -aL "$path" "$ROOT$path"
    done
}

# Prints the names of the variables that configure the network; variables with secrets are not among them.
network_variables() {
    compgen -e | grep -E '^(PIP_|SSL_CERT_|CARGO_(HTTP|NET|REGISTRIES|SOURCE)_|CARGO_HOME$)|_(proxy|PROXY|CA_BUNDLE)$' |
        grep -v '_TOKEN$' || true
}

# bare_root_run COMMAND...: runs the command as root in ROOT, with this machine's network and, read-only in
# /opt/rust, its Rust. In separate namespaces: mounts and processes end with the command, however it ends.
bare_root_run() {
    local name variables=()
    for name in $(network_variables); do variables+=("$name=${!name}"); done
    mkdir -p "$ROOT/opt/rust"
    # shellcheck disable=SC2016 # for the inner shell
    unshare --mount --pid --fork --kill-child -- bash -euc '
        root=$1 rust=$2
        shift 2
        mount -t proc proc "$root/proc"
        mkdir -p "$root/dev/shm"
        mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
        mkdir -p "$root/dev/pts"
        mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$root/dev/pts"
        ln -sf pts/ptmx "$root/dev/ptmx"
        mount --bind "$rust" "$root/opt/rust"
        mount -o remount,bind,ro "$root/opt/rust"
        exec chroot "$root" "$@"' bash "$ROOT" "$(rustc --print sysroot)" \
        env -i HOME="$HOME" LANG=C.UTF-8 TERM="${TERM:-dumb}" "${variables[@]}" \
        PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
