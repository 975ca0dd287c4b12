"""A program of consumers at work, as the suite sees it: what it has counted, and what became of each message."""

import json
import subprocess

from running import ROOT

SERVICE_CONFIG = ROOT / "deploy" / "clients" / "service-config.json"
# In each program.
CONSUMERS = 8


class Consumers:
    def __init__(self, running, library, command, servers):
        self.running, self.library = running, library
        self.names = [f"{library}-{number}" for number in range(CONSUMERS)]
        addresses = ",".join(server.address for server in servers)
        self.process = running.start(library, *command, "--servers", addresses, "--service-config", SERVICE_CONFIG,
                                     "--consumers", ",".join(self.names), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     text=True)

    def sofar(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return Counts(self.heard())

    def end(self):
        """What the program tells last: its library's version, its counts and its messages."""
        self.process.stdin.close()
        told = self.heard()
        assert self.process.wait(timeout=10) == 0, self.running.log(self.library)[-2000:]
        return told["version"], Counts(told["counts"]), told["messages"]

    def heard(self):
        line = self.process.stdout.readline()
        assert line, f"{self.library} has ended: {self.running.log(self.library)[-2000:]}"
        return json.loads(line)


class Counts:
    def __init__(self, told):
        self.calls, self.failures, self.given_up = told["calls"], told["failures"], told["given_up"]
        self.slowest_ms = told["slowest_ms"]
        self.failed = sum(self.failures.values())
