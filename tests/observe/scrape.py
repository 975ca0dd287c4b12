"""What /metrics says: its series by name and labels."""

import re
import time
import urllib.request

SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def text(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        return answer.read().decode()


def timed(address, times=5):
    """The size of the text, and the shortest of some times that it took."""
    took = []
    for _ in range(times):
        began = time.monotonic()
        size = len(text(address))
        took.append(time.monotonic() - began)
    return size, min(took)


def series(of):
    """(name, sorted labels) to value."""
    found = {}
    for line in of.splitlines():
        if line.startswith("#") or not line:
            continue
        name, labels, value = SAMPLE.fullmatch(line).groups()
        found[name, tuple(sorted(LABEL.findall(labels or "")))] = float(value)
    return found


def written(name, labels):
    """As PromQL has it."""
    inside = ",".join(f'{label}="{value}"' for label, value in labels)
    return f"{name}{{{inside}}}" if inside else name


def value(of, name, **labels):
    """The sum of the series that have these labels."""
    wanted = set(labels.items())
    return sum(value for (found, has), value in of.items() if found == name and wanted <= set(has))
