"""What is no program: the chart, the crate, the protobuf files and their reference, the list of components, the notes."""

import json
import subprocess
import tomllib

from . import pack
from .programs import BUILT, WORK
from .release import ARCHITECTURES, NAME, ROOT

CHART = ROOT / "deploy" / "helm" / NAME


def tracked(folder):
    """The files of a folder that the repository has."""
    shown = subprocess.run(["git", "ls-files", "-z", str(folder)], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in shown.split("\0") if name]


def chart(release):
    """As `helm package` makes it. The chart has the version of the program."""
    described = (CHART / "Chart.yaml").read_text()
    for line in (f"version: {release.version}", f"appVersion: {release.version}"):
        if line not in described.splitlines():
            raise SystemExit(f"release/build: deploy/helm/{NAME}/Chart.yaml must say `{line}`, as Cargo.toml does")
    entries = [pack.Entry(f"{NAME}/{path.relative_to(CHART)}", path.read_bytes()) for path in tracked(CHART)]
    return f"{NAME}-{release.version}-chart.tgz", pack.tar_gz(entries, release.epoch)


def crates(release):
    """The server's and that of its rules, as `cargo package` makes them, which gives all files one instant of its own."""
    rules = tomllib.loads((ROOT / "src" / "domain" / "Cargo.toml").read_text())["package"]
    if rules["version"] != release.version:
        raise SystemExit(f"release/build: src/domain/Cargo.toml must have the version {release.version}, as Cargo.toml does")
    subprocess.run(["cargo", "package", "--workspace", "--locked", "--no-verify", "--quiet", "--target-dir", BUILT], cwd=ROOT, check=True)
    for package in (NAME, rules["name"]):
        name = f"{package}-{release.version}.crate"
        yield name, (BUILT / "package" / name).read_bytes()


def proto(release):
    """The protobuf files, the set of their descriptors, and a reference page made of their comments."""
    descriptors = subprocess.run([WORK / "bin" / "buf", "build", "-o", "-#format=binpb"], cwd=ROOT, capture_output=True, check=True).stdout
    page = subprocess.run([WORK / "bin" / "python", ROOT / "release" / "lib" / "reference.py"], input=descriptors, capture_output=True,
                          check=True).stdout
    folder = f"{NAME}-proto-{release.version}"
    entries = [pack.Entry(f"{folder}/{path.relative_to(ROOT / 'proto')}", path.read_bytes()) for path in tracked(ROOT / "proto")
               if path.suffix == ".proto"]
    entries += [pack.Entry(f"{folder}/descriptors.binpb", descriptors), pack.Entry(f"{folder}/reference.md", page)]
    return f"{folder}.tar.gz", pack.tar_gz(entries, release.epoch)


def components(target):
    """The packages that are compiled into the program, each with its dependencies, as cargo resolves them."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    told = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    packages = {one["id"]: one for one in told["packages"]}
    nodes = {one["id"]: one for one in told["resolve"]["nodes"]}
    found, waiting = {}, [told["resolve"]["root"]]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        needs = [dependency["pkg"] for dependency in nodes[name]["deps"] if any(kind["kind"] is None for kind in dependency["dep_kinds"])]
        found[name] = (packages[name], needs)
        waiting += needs
    return found, told["resolve"]["root"]


def sbom(release, architecture):
    """The list of components in the format CycloneDX 1.5: nothing in it depends on when or where it was made."""
    found, root = components(architecture.target)
    checksums = locked_checksums()

    def described(package):
        name, version = package["name"], package["version"]
        one = {"type": "library", "bom-ref": reference(package), "name": name, "version": version, "purl": reference(package)}
        if package["license"]:
            one["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if (name, version) in checksums:
            one["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
        return one

    def reference(package):
        return f"pkg:cargo/{package['name']}@{package['version']}"

    libraries = [package for name, (package, _) in found.items() if name != root]
    bom = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {**described(found[root][0]), "type": "application"},
                     "properties": [{"name": "commit", "value": release.commit}, {"name": "target", "value": architecture.target}]},
        "components": sorted(map(described, libraries), key=lambda one: one["bom-ref"]),
        "dependencies": sorted(({"ref": reference(package), "dependsOn": sorted({reference(found[need][0]) for need in needs})}
                                for package, needs in found.values()), key=lambda one: one["ref"]),
    }
    name = f"{NAME}-{release.version}-{architecture.rust}.cdx.json"
    return name, (json.dumps(bom, indent=1, sort_keys=True) + "\n").encode()


def locked_checksums():
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return {(one["name"], one["version"]): one["checksum"] for one in locked if "checksum" in one}


def notes(release):
    """The part of the changelog about this version; what is not released yet stands there under `Unreleased`."""
    parts = (ROOT / "CHANGELOG.md").read_text().split("\n## ")
    for heading in (f"[{release.version}]", release.version, "Unreleased"):
        for part in parts[1:]:
            if part.startswith(heading):
                text = part.partition("\n")[2].strip()
                return "RELEASE-NOTES.md", f"# {NAME} {release.version}\n\nCommit {release.commit}.\n\n{text}\n".encode()
    raise SystemExit(f"release/build: CHANGELOG.md has no part about {release.version}, and none that is unreleased")


def archive(release, architecture):
    """The program with its pages and completions, to unpack anywhere."""
    folder = f"{NAME}-{release.version}-{architecture.rust}-linux"
    entries = [pack.Entry(f"{folder}/{NAME}", release.programs[architecture], 0o755)]
    entries += [pack.Entry(f"{folder}/{name}", data) for name, data in release.common().items()]
    entries += [pack.Entry(f"{folder}/man/man1/{name}", page) for name, page in release.manual.items()]
    entries += [pack.Entry(f"{folder}/{path}", text) for path, text in release.completions.items()]
    return f"{folder}.tar.gz", pack.tar_gz(entries, release.epoch)


def packages(release):
    """Everything of this file."""
    for architecture in ARCHITECTURES:
        yield archive(release, architecture)
        yield sbom(release, architecture)
    yield chart(release)
    yield from crates(release)
    yield proto(release)
    yield notes(release)
