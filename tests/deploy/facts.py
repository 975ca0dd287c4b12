"""What the program says of itself: its commands, its settings, their variables and defaults."""

import pathlib
import re
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFIX = "IDEMPOTENCY_LEDGER_"
# What the server keeps of its open files for itself; a connection is one more.
FILES_KEPT = 64


def rights_of(file):
    """Principal to what it may do, of a file of rights."""
    return {line["principal"]: line["may"] for line in tomllib.loads(file.read_text())["rights"]}


def seconds(duration):
    """`30s`, `1m`, `250ms` and the like, as seconds."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
    parts = re.findall(r"(\d+)(ms|[smhd])", str(duration))
    assert parts and "".join(map("".join, parts)) == str(duration), f"{duration!r} is no duration like 30s"
    return sum(int(number) * units[unit] for number, unit in parts)


class Program:
    """The binary, asked by `--help`."""

    def __init__(self, binary):
        self.binary = pathlib.Path(binary).resolve()
        manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]
        self.version, self.rust = manifest["version"], manifest["rust-version"]
        self.helps = {}
        commands = self.help().split("Commands:")[1].split("Options:")[0]
        self.commands = set(re.findall(r"^  (\w+) ", commands, re.MULTILINE))

    def help(self, *command):
        if command not in self.helps:
            asked = subprocess.run([self.binary, *command, "--help"], capture_output=True, text=True, check=True)
            self.helps[command] = asked.stdout
        return self.helps[command]

    def variables(self, command):
        """The environment variables that a command reads."""
        return set(re.findall(rf"\[env:\s+({PREFIX}\w+)", self.help(command)))

    def flags(self, command):
        return set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", self.help(command), re.MULTILINE))

    def default(self, setting):
        """The default of one of the server's settings, as `serve --help` has it."""
        flag = setting.replace("_", "-")
        text = re.search(rf"--{flag} <.*?\[default:\s+([^\]]+)\]", self.help("serve"), re.DOTALL)
        assert text, f"`serve --help` names no default of --{flag}"
        return text[1]

    def settings(self, environment, file=None):
        """What is in force for the settings that a supervisor must know, as numbers; time in seconds."""
        def in_force(name):
            return environment.get(PREFIX + name.upper()) or (file or {}).get(name) or self.default(name)

        times = {name: seconds(in_force(name)) for name in ("drain_wait", "drain_max", "startup_wait")}
        return {**times, "connections_max": int(in_force("connections_max")), "listen": in_force("listen"),
                "observe_listen": in_force("observe_listen")}

    def drain(self, environment, file=None):
        """The longest time from SIGTERM to the end, in seconds."""
        settings = self.settings(environment, file)
        return settings["drain_wait"] + settings["drain_max"]

    def port(self, setting="listen"):
        return int(self.default(setting).rsplit(":", 1)[1])


    def lint(self, rights, *tokens):
        """What `rights lint` says of a file of rights; nothing where nothing is odd."""
        with_tokens = [word for file in tokens for word in ("--tokens-file", file)]
        linted = subprocess.run([self.binary, "rights", "lint", "--strict", "--rights-file", rights, *with_tokens],
                                capture_output=True, text=True)
        return "" if linted.returncode == 0 else (linted.stdout + linted.stderr).strip()


class Problems(list):
    """What is wrong, each with the file's name, what is there and what is needed."""

    def __init__(self, where):
        super().__init__()
        self.where = where

    def add(self, text):
        self.append(f"{self.where}: {text}")

    def expect(self, good, text):
        if not good:
            self.add(text)

    def equal(self, what, found, wanted):
        self.expect(found == wanted, f"{what} is {found!r}, must be {wanted!r}")

    def at_least(self, what, found, least, why):
        self.expect(found >= least, f"{what} is {found}, must be at least {least}: {why}")

    def call(self, program, words, environment):
        """A command line, and the variables that it is given."""
        if not words or words[0] not in program.commands:
            self.add(f"{words!r} is no command of the program")
            return
        for flag in words[1:]:
            if flag.startswith("-"):
                self.expect(flag.split("=")[0] in program.flags(words[0]), f"`{words[0]}` has no flag {flag}")
        for name in environment:
            if name.startswith(PREFIX):
                self.expect(name in program.variables(words[0]), f"`{words[0]}` reads no variable {name}")
