"""Which lines and branches of `src` are taken, by room; and the blocks that no test takes and that are not listed.

    python tests/lib/coverage/report.py LCOV [--all]

--all: all tests have run, so that a block which is not listed, or a side of a branch that is not taken, is a failure.
"""

import argparse
import collections
import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
LISTED = ROOT / "tests/lib/coverage/untaken.tsv"
# Where the module of tests of a file begins, which ends it; and files that are tests as a whole. Other items for tests stand anywhere:
# tests take them, so that they are not noticed.
TESTS = re.compile(r"^#\[cfg\((?:all\()?(?:any\()?test[^\n]*\n(?:#\[[^\n]*\n)*mod \w+ \{", re.MULTILINE)
TEST_FILES = re.compile(r"(^|/)(tests(/|\.rs$)|interleavings(/|\.rs$)|for_tests\.rs$|any_split\.rs$|model\.rs$)")
WORD = re.compile(r"\w")


class Counts:
    """Lines, and the two sides of branches: how many there are, and how many were taken."""

    def __init__(self):
        self.lines = [0, 0]
        self.branches = [0, 0]

    def add(self, which, taken):
        both = getattr(self, which)
        both[0] += 1
        both[1] += taken > 0

    def percent(self, which):
        there, taken = getattr(self, which)
        return f"{100 * taken / there:.1f} %" if there else "–"


def read(lcov):
    """By file: the counts of its lines, and of the sides of its branches by (line, side)."""
    files, current = {}, None
    for line in lcov.read_text().splitlines():
        kind, _, rest = line.partition(":")
        if kind == "SF":
            path = pathlib.Path(rest)
            name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
            current = files.setdefault(name, (collections.Counter(), collections.Counter()))
        elif kind == "DA":
            number, count = rest.split(",")[:2]
            current[0][int(number)] += int(count)
        elif kind == "BRDA":
            number, block, side, count = rest.split(",")
            current[1][int(number), block, side] += 0 if count == "-" else int(count)
    return files


def product(name, text):
    """How many lines of a file are of the product: what stands behind them tests it."""
    if not name.startswith("src/") or TEST_FILES.search(name.removeprefix("src/")):
        return 0
    tests = TESTS.search(text)
    return text[: tests.start()].count("\n") if tests else text.count("\n")


def listed():
    """(a pattern of files, a pattern of the first line of a block, the reason)."""
    lines = [line.split("\t") for line in LISTED.read_text().splitlines() if line and not line.startswith("#")]
    return [(file, re.compile(line), reason) for file, line, reason in lines]


def blocks(lines, last):
    """The first and the last line of each block of lines that no test takes."""
    missed = sorted(number for number, count in lines.items() if count == 0 and number <= last)
    found = []
    for number in missed:
        # Lines between two of them have no code.
        if found and all(between not in lines for between in range(found[-1][1] + 1, number)):
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def opening(code, first):
    """The first line of a block; before a line of brackets alone, the last line above that has a word: a file has many brackets."""
    line = code[first - 1].strip()
    above = (one.strip() for one in reversed(code[: first - 1]))
    return line if WORD.search(line) else f"{next(filter(WORD.search, above), '')} {line}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lcov", type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    rooms, reasons, used, untaken, sides = collections.defaultdict(Counts), listed(), set(), [], []
    for name, (lines, branches) in sorted(read(options.lcov).items()):
        if not (ROOT / name).is_file():
            continue
        source = (ROOT / name).read_text()
        code, last = source.splitlines(), product(name, source)
        room = rooms["/".join(name.split("/")[1:-1][:1]) or "."]
        for number, count in lines.items():
            if number <= last:
                room.add("lines", count)
        for (number, _, side), count in branches.items():
            if number <= last:
                room.add("branches", count)
                if count == 0 and lines[number]:
                    sides.append((name, number, side, code[number - 1].strip()))
        for first, end in blocks(lines, last):
            text = opening(code, first)
            match = next((one for one in reasons if fnmatch.fnmatch(name, one[0]) and one[1].search(text)), None)
            if match:
                used.add(match)
            else:
                untaken.append(f"{name}:{first}-{end}: {text}")
    print(f"{'room':<14}{'lines':>8}{'taken':>10}{'branches':>10}{'taken':>10}")
    everything = Counts()
    for name, counts in sorted(rooms.items()):
        if not counts.lines[0]:
            continue
        print(f"{name:<14}{counts.lines[0]:>8}{counts.percent('lines'):>10}{counts.branches[0]:>10}{counts.percent('branches'):>10}")
        for which in ("lines", "branches"):
            both = getattr(everything, which)
            both[:] = [sum(pair) for pair in zip(both, getattr(counts, which))]
    print(f"{'all':<14}{everything.lines[0]:>8}{everything.percent('lines'):>10}{everything.branches[0]:>10}{everything.percent('branches'):>10}")
    print(f"\n{len(untaken)} blocks that no test takes and that are not listed, {len(sides)} sides of branches in lines that are taken:")
    print(*untaken, *(f"{name}:{number}, side {side}: {text}" for name, number, side, text in sides), sep="\n")
    surely = [one for one in reasons if not one[2].startswith("chance: ")]
    old = [f"{file}: {line.pattern}" for file, line, reason in surely if (file, line, reason) not in used]
    if options.all and old:
        print("listed, and taken by now:", *old, sep="\n")
    sys.exit(bool(options.all and (untaken or sides or old)))


main()
