"""npm packages: one for each architecture with the program, and one in front that runs the fitting one."""

import json

from . import pack
from .release import ARCHITECTURES, NAME, ROOT, SUMMARY

FRONT = ROOT / "release" / "npm"
SCOPE = f"@{NAME}"


def tgz(name, release, manifest, files):
    described = {"version": release.version, "description": SUMMARY, "license": "Apache-2.0", **manifest}
    entries = [pack.Entry("package/package.json", (json.dumps(described, indent=2) + "\n").encode()),
               pack.Entry("package/LICENSE", release.common()["LICENSE"])]
    entries += [pack.Entry(f"package/{path}", data, mode) for path, (data, mode) in files.items()]
    file = name.removeprefix("@").replace("/", "-")
    return f"{file}-{release.version}.tgz", pack.tar_gz(entries, release.epoch)


def platform_name(architecture):
    return f"{SCOPE}/linux-{architecture.npm}"


def packages(release):
    """The name of each file, and its bytes."""
    for architecture in ARCHITECTURES:
        name = platform_name(architecture)
        manifest = {"name": name, "os": ["linux"], "cpu": [architecture.npm], "preferUnplugged": True}
        yield tgz(name, release, manifest, {f"bin/{NAME}": (release.programs[architecture], 0o755)})
    manifest = {
        "name": NAME, "bin": {NAME: "bin/run.js"}, "main": "index.js", "types": "index.d.ts", "engines": {"node": ">=18"},
        # npm installs the one that fits the machine, and leaves the others out.
        "optionalDependencies": {platform_name(architecture): release.version for architecture in ARCHITECTURES},
    }
    files = {path: ((FRONT / path).read_bytes(), mode)
             for path, mode in {"bin/run.js": 0o755, "index.js": 0o644, "index.d.ts": 0o644, "README.md": 0o644}.items()}
    yield tgz(NAME, release, manifest, files)
