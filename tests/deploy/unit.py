"""deploy/systemd: the unit, and the example of its environment."""

import pathlib
import re
import shlex
import subprocess
import tempfile

from facts import FILES_KEPT, Problems, seconds

UNIT, DROP_IN = "idempotency-ledger.service", "credentials.conf"
BACKUP, TIMER = "idempotency-ledger-backup.service", "idempotency-ledger-backup.timer"
# What a backup must have as the server has it: else it sees no ledger, or leaves files that the server cannot open.
SHARED = ["DynamicUser", "StateDirectoryMode", "WorkingDirectory", "EnvironmentFile", "UMask"]
# Where systemd puts the copies of a service's credentials.
CREDENTIALS = "/run/credentials/"
# systemd's own measure of what a service may still do, in tenths: 0 is nothing, 100 all.
EXPOSURE_MAX = 13


def options(deploy, unit=UNIT):
    """Option to its values, in the unit's order."""
    found = {}
    for line in (deploy / "systemd" / unit).read_text().splitlines():
        if "=" in line and not line.startswith(("#", ";")):
            name, value = line.split("=", 1)
            found.setdefault(name, []).append(value)
    return found


def drop_in(deploy):
    """The lines of the drop-in, those that are commented out too: the credentials, and the variables."""
    text = (deploy / "systemd" / DROP_IN).read_text()
    credentials = dict(re.findall(r"^#?LoadCredential=(\w+):(/\S+)$", text, re.MULTILINE))
    return credentials, dict(re.findall(r"^#?Environment=(\w+)=(.*)$", text, re.MULTILINE))


def command(deploy):
    (line,) = options(deploy)["ExecStart"]
    return shlex.split(line)


def examples(deploy):
    """The variables of the example, which are all commented out."""
    text = (deploy / "systemd" / "environment.example").read_text()
    return dict(re.findall(r"^#?([A-Z][A-Z_]+)=(.*)$", text, re.MULTILINE))


def analyze(deploy, program):
    """What systemd says."""
    problems = Problems(f"deploy/systemd/{UNIT}")
    with tempfile.TemporaryDirectory() as folder:
        unit = pathlib.Path(folder) / UNIT
        # systemd looks whether the program is there.
        unit.write_text((deploy / "systemd" / UNIT).read_text().replace(command(deploy)[0], str(program.binary)))
        # As it is with a Postgres and with TLS.
        (pathlib.Path(folder) / f"{UNIT}.d").mkdir()
        text = (deploy / "systemd" / DROP_IN).read_text()
        (pathlib.Path(folder) / f"{UNIT}.d" / DROP_IN).write_text(re.sub(r"^#(?=\w+=)", "", text, flags=re.MULTILINE))
        for arguments in (["verify", "--man=no", "--recursive-errors=no"],
                          ["security", "--no-pager", "--offline=true", f"--threshold={EXPOSURE_MAX}"]):
            asked = subprocess.run(["systemd-analyze", *arguments, unit], capture_output=True, text=True)
            # `verify` warns of an option that it does not know, and is content.
            complaints = asked.stderr if arguments[0] == "verify" else ""
            problems.expect(asked.returncode == 0 and not complaints,
                            f"systemd-analyze {arguments[0]}: {asked.stderr}{asked.stdout[-200:]}")
        for name in (BACKUP, TIMER):
            (pathlib.Path(folder) / name).write_text((deploy / "systemd" / name).read_text())
        backup = pathlib.Path(folder) / BACKUP
        for arguments in (["verify", "--man=no", "--recursive-errors=no", pathlib.Path(folder) / TIMER],
                          ["verify", "--man=no", "--recursive-errors=no", backup],
                          ["security", "--no-pager", "--offline=true", f"--threshold={EXPOSURE_MAX}", backup]):
            asked = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True)
            complaints = asked.stderr if arguments[0] == "verify" else ""
            problems.expect(asked.returncode == 0 and not complaints,
                            f"systemd-analyze {arguments[0]} of the backup: {asked.stderr}{asked.stdout[-200:]}")
    return problems


def backup(problems, deploy, program):
    """The unit of backups, and its timer."""
    served = {name: values[-1] for name, values in options(deploy).items()}
    found = {name: values[-1] for name, values in options(deploy, BACKUP).items()}
    for name in SHARED:
        problems.equal(f"{BACKUP}: {name}", found.get(name), served.get(name))
    # systemd names the server's user after its unit.
    problems.equal(f"{BACKUP}: User", found.get("User"), UNIT.removesuffix(".service"))
    state, copies = found["StateDirectory"].split()
    problems.equal(f"{BACKUP}: StateDirectory", state, served["StateDirectory"])
    shell, option, script = shlex.split(found["ExecStart"])
    words = shlex.split(script)
    problems.equal(f"{BACKUP}: the program", words[:2], ["exec", command(deploy)[0]])
    problems.call(program, words[2:], {})
    problems.expect(f'"{pathlib.PurePath(copies).name}/' in script, f"{BACKUP}: the copies lie outside of {copies}")
    problems.equal(f"{TIMER}: OnCalendar", options(deploy, TIMER)["OnCalendar"], ["hourly"])
    problems.equal(f"{TIMER}: its service", TIMER.removesuffix(".timer"), BACKUP.removesuffix(".service"))


def check(deploy, program):
    problems = Problems(f"deploy/systemd/{UNIT}")
    found = {name: values[-1] for name, values in options(deploy).items()}
    credentials, variables = drop_in(deploy)
    problems.call(program, command(deploy)[1:], examples(deploy) | variables)
    problems.equal(f"{DROP_IN}: the files of the variables", sorted(variables.values()),
                   sorted(f"{CREDENTIALS}{UNIT}/{name}" for name in credentials))
    problems.expect(not any(":" in value.rpartition("@")[0].partition("://")[2] for value in examples(deploy).values()),
                    f"environment.example: a password belongs into a file of {DROP_IN}")
    problems.equal("Type", found["Type"], "notify")
    problems.equal("NotifyAccess", found["NotifyAccess"], "main")
    problems.at_least("WatchdogSec in seconds", seconds(found["WatchdogSec"]), 10, "a machine may stand still for a moment")
    problems.at_least("TimeoutStartSec in seconds", seconds(found["TimeoutStartSec"].replace("min", "m")),
                      program.settings({})["startup_wait"] + 10, "startup_wait and 10 s")
    problems.equal("KillSignal", found["KillSignal"], "SIGTERM")
    problems.equal("Restart", found["Restart"], "on-failure")
    problems.equal("ProtectSystem", found["ProtectSystem"], "strict")
    problems.equal("WorkingDirectory", found["WorkingDirectory"], f"%S/{found['StateDirectory']}")
    problems.at_least("TimeoutStopSec in seconds", seconds(found["TimeoutStopSec"]), program.drain({}) + 5,
                      "drain_wait, drain_max and 5 s to end")
    problems.at_least("LimitNOFILE", int(found["LimitNOFILE"]), int(program.default("connections_max")) + FILES_KEPT,
                      "connections_max and what the server keeps")
    problems.equal("the example's address", examples(deploy)["IDEMPOTENCY_LEDGER_LISTEN"], program.default("listen"))
    backup(problems, deploy, program)
    problems.expect("ProcSubset" not in found, "ProcSubset hides /proc/sys, which the allocator reads")
    return problems
