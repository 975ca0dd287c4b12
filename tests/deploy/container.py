"""deploy/Containerfile, and the build context that .dockerignore leaves."""

import json
import pathlib
import re
import subprocess
import sys

from facts import ROOT, Problems

RECIPE = "Containerfile"
# Debian's names, so that the program is built against the C library that it runs with.
RELEASES = {"bookworm": "debian12", "trixie": "debian13"}


def instructions(text):
    """(instruction, what follows), continuation lines joined, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]


def stages(deploy):
    found = []
    for instruction, rest in instructions((deploy / RECIPE).read_text()):
        if instruction == "FROM":
            found.append([])
        found[-1].append((instruction, rest))
    return found


class Image:
    """What the last stage says of containers."""

    def __init__(self, deploy):
        last = dict(stages(deploy)[-1])
        self.user = last.get("USER", "")
        self.entrypoint, self.command = (words(last.get(name)) for name in ("ENTRYPOINT", "CMD"))
        health = last.get("HEALTHCHECK", "").split("CMD", 1)
        self.health = words(health[1]) if len(health) == 2 else None
        self.stop_signal = last.get("STOPSIGNAL")
        self.environment = dict(pair.split("=", 1) for pair in last.get("ENV", "").split())
        self.exposed = last.get("EXPOSE")


def words(text):
    """The exec form, a JSON list; None for a shell's form."""
    try:
        return json.loads(text or "")
    except json.JSONDecodeError:
        return None


def lint(deploy, _):
    problems = Problems(f"deploy/{RECIPE}")
    hadolint = pathlib.Path(sys.executable).with_name("hadolint")
    command = [hadolint, "--no-color", "--failure-threshold", "style", "--disable-ignore-pragma",
               "--trusted-registry", "docker.io", "--trusted-registry", "gcr.io", str(deploy / RECIPE)]
    linted = subprocess.run(command, capture_output=True, text=True)
    problems.expect(linted.returncode == 0, f"hadolint: {linted.stdout}{linted.stderr}")
    return problems


def check(deploy, program):
    problems = Problems(f"deploy/{RECIPE}")
    built, image = stages(deploy)[0], Image(deploy)
    bases(problems, deploy, program)
    build = " ".join(rest for instruction, rest in built if instruction == "RUN")
    problems.equal("cargo's command line", re.findall(r"cargo [^&]+?(?= &&|$)", build), ["cargo build --release --locked"])
    problems.expect(re.fullmatch(r"[1-9]\d*:[1-9]\d*", image.user), f"USER is {image.user!r}, must be numbers and not root")
    problems.equal("STOPSIGNAL", image.stop_signal, "SIGTERM")
    ports = {setting: program.port(setting) for setting in ("listen", "observe_listen")}
    problems.equal("EXPOSE", image.exposed, " ".join(map(str, ports.values())))
    for setting, port in ports.items():
        name = f"IDEMPOTENCY_LEDGER_{setting.upper()}"
        problems.equal(f"the port of {name}", image.environment.get(name), f"0.0.0.0:{port}")
    for name in ("entrypoint", "command", "health"):
        problems.expect(getattr(image, name), f"{name} is missing, or not in the exec form: the image has no shell")
    if image.health and image.entrypoint and image.command:
        problems.equal("the health check's program", image.health[:1], image.entrypoint)
        # It asks the server at its address, and needs none of the others.
        asks = {name: value for name, value in image.environment.items() if not name.endswith("OBSERVE_LISTEN")}
        problems.call(program, image.health[1:], asks)
        problems.call(program, image.command, image.environment)
    return problems + context(deploy, program)


def bases(problems, deploy, program):
    """The images of both stages: pinned by tag and content, of one Debian, the first with the Rust that Cargo.toml names."""
    build, run = (pinned(problems, stage[0][1].split()[0]) for stage in stages(deploy))
    found = re.fullmatch(r"docker\.io/library/rust:(\d+\.\d+)-(\w+)", build)
    debian = re.fullmatch(r"gcr\.io/distroless/cc-(debian\d+):nonroot", run)
    problems.expect(found and found[1] == program.rust, f"built on {build}, must have Rust {program.rust} (rust-version)")
    problems.expect(found and debian and RELEASES.get(found[2]) == debian[1], f"built on {build}, runs on {run}: not one Debian")


def pinned(problems, image):
    """The image's name and tag. The digest after them says what is run; the tag says to people what that is."""
    name, _, digest = image.partition("@")
    problems.expect(re.fullmatch(r"sha256:[0-9a-f]{64}", digest), f"{name} must be followed by the digest of its content, `@sha256:...`")
    return name


def context(deploy, program):
    """What is let through is what cargo read for the program, and nothing else."""
    problems = Problems(".dockerignore")
    lines = [line for line in (deploy.parent / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    problems.expect(lines[:1] == ["*"] and all(re.fullmatch(r"![\w.-]+", line) for line in lines[1:]),
                    "must leave out `*`, and then let names of the top folder through, one a line: `!NAME`")
    read = pathlib.Path(f"{program.binary}.d").read_text().replace("\\ ", "\0").split()[1:]
    target = program.binary.parents[1]
    inside = [pathlib.Path(name.replace("\0", " ")) for name in read]
    inside = [path for path in inside if path.is_relative_to(ROOT) and not path.is_relative_to(target)]
    needed = {path.relative_to(ROOT).parts[0] for path in inside} | {"Cargo.toml", "Cargo.lock", ".cargo"}
    let = {line[1:] for line in lines[1:]}
    problems.expect(needed <= let, f"leaves out what cargo reads: {sorted(needed - let)}")
    problems.expect(let <= needed, f"lets through what cargo does not read: {sorted(let - needed)}")
    return problems
