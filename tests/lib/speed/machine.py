"""CPU time and memory of processes on this machine, and whether other processes disturbed a run."""

import dataclasses
import os
import pathlib
import platform
import subprocess
import threading
import time

TICK = os.sysconf("SC_CLK_TCK")
# A share of the machine's CPU time: above it a run is disturbed by other processes.
OTHERS_MAX = 0.12
KERNEL_THREADS = 2  # the parent of all of them


def _processes():
    """Of each process: its parent, its own CPU ticks, and those of its children that have ended."""
    found = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            text = pathlib.Path(entry.path, "stat").read_text()
        except OSError:
            continue  # it has ended meanwhile
        # The name, in brackets, may hold spaces.
        fields = text.rpartition(")")[2].split()
        own, ended = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
        found[int(entry.name)] = (int(fields[1]), own, ended)
    return found


def _tree(processes, root):
    """A process and all that descend from it."""
    children = {}
    for pid, (parent, _, _) in processes.items():
        children.setdefault(parent, []).append(pid)
    left, found = [root], []
    while left:
        pid = left.pop()
        if pid in processes:
            found.append(pid)
            left.extend(children.get(pid, []))
    return found


def _seconds(processes, root):
    return sum(own + ended for _, own, ended in (processes[pid] for pid in _tree(processes, root))) / TICK


def cpu_seconds(pid):
    """The CPU time of a process and of all that descend from it."""
    return _seconds(_processes(), pid)


@dataclasses.dataclass
class Snapshot:
    ours: float
    busy: float
    stolen: float
    everything: float

    @staticmethod
    def now():
        processes = _processes()
        # The kernel's own threads work for the run: they write its pages.
        ours = _seconds(processes, os.getpid()) + _seconds(processes, KERNEL_THREADS)
        ticks = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        user, nice, system, _idle, _wait, _irq, _softirq, stolen = ticks
        return Snapshot(ours, (user + nice + system) / TICK, stolen / TICK, sum(ticks) / TICK)

    def others_since(self):
        """The share of the machine's CPU time that other processes used since then, from 0 to 1."""
        now = Snapshot.now()
        others = (now.busy - self.busy) - (now.ours - self.ours) + (now.stolen - self.stolen)
        return max(0.0, others / max(now.everything - self.everything, 1 / TICK))


def resident_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class PeakMemory:
    """The most memory that a process had, looked at ten times a second."""

    def __init__(self, pid):
        self.mib, self._pid, self._stop = resident_mib(pid), pid, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        while not self._stop.wait(0.1):
            try:
                self.mib = max(self.mib, resident_mib(self._pid))
            except OSError:
                return

    def end(self):
        self._stop.set()
        self._thread.join()
        return self.mib


def wait_until_calm(seconds):
    """Waits for a second without load of other processes, for at most this number of seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        before = Snapshot.now()
        time.sleep(1)
        if before.others_since() <= OTHERS_MAX:
            return True
    return False


def described(root):
    """The lines that say where the figures come from."""
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) / 1024 / 1024
    commit = subprocess.run(["git", "log", "-1", "--format=%h of %cs"], cwd=root, capture_output=True, text=True, check=False)
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=False)
    return [
        f"machine: {os.cpu_count()} cores ({model}), {memory:.0f} GiB, Linux {platform.release()}; client, server and store share it",
        f"commit: {commit.stdout.strip() or 'unknown'}{', with changes that are not committed' if changed.stdout.strip() else ''}",
    ]
