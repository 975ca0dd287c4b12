"""Counts what items cost, and compares: see docs/performance.md. tests/prove counts runs it."""

import argparse
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import recorded
from bounds import MEASUREMENTS
from postgres import Counter
from server import costs

# How often a measurement that misses a bound is made in all: then the median decides. How many calls share a statement depends
# on what else the machine does.
GOES = 3
SERVER = "server"


def missed(found, bounds):
    return [what for what, most in bounds.items() if found[what] > most]


def number(value):
    return f"{value:.4f}" if value < 1 else f"{value:.2f}"


def database(binary, names):
    """What these items cost Postgres; gives back what is wrong."""
    problems = []
    counter = Counter(binary)
    try:
        print(f"Postgres {counter.cluster.version}: an item costs (at most)", flush=True)
        for name in names:
            title, bounds = MEASUREMENTS[name]
            began = time.monotonic()
            goes = [getattr(counter, name)()]
            if missed(goes[0], bounds):
                goes += [getattr(counter, name)() for _ in range(GOES - 1)]
            found = {what: statistics.median(go[what] for go in goes) for what in bounds}
            text = ", ".join(f"{what} {number(found[what])} ({most:g})" for what, most in bounds.items())
            records, logged = goes[-1]["logged"]
            print(f"  {title}: {text}; with commits and upkeep {records:.2f} records, {logged:.0f} bytes; "
                  f"{time.monotonic() - began:.1f} s", flush=True)
            wrong = missed(found, bounds)
            problems += [f"{title}: {what} {number(found[what])}, at most {bounds[what]:g} is allowed" for what in wrong]
            if wrong:
                problems.append(f"  statements of {goes[-1]['items']} items: {goes[-1]['by']}")
    finally:
        counter.stop()
    return problems


def server(binary, reason):
    """What calls cost the server; gives back what is wrong."""
    measured, problems = {}, []
    with_tools, known = recorded.read() if recorded.FILE.exists() else ("", {})
    print("the server: a call costs (recorded)", flush=True)
    for name, values in costs(binary):
        for what, value in zip(recorded.WHATS, values):
            measured[name, what] = value
        text = ", ".join(f"{what} {measured[name, what]:.1f} ({compared(measured[name, what], known.get((name, what)))})"
                         for what in recorded.WHATS)
        print(f"  {name}: {text}", flush=True)
    if reason:
        recorded.write(measured, reason)
        print(f"recorded in {recorded.FILE.name}: {reason}")
        return []
    if with_tools != recorded.tools():
        print(f"NOT COMPARED: the numbers were recorded with {with_tools}, and these are of {recorded.tools()}; "
              "tests/prove counts --record 'the reason' records these")
        return []
    for (name, what), value in measured.items():
        if (name, what) not in known:
            problems.append(f"{name}: {what} were never recorded")
        elif value < recorded.least(known[name, what][0]):
            print(f"{name}: {what} {change(value, known[name, what][0])}: record that, so that it stays so")
        elif value > recorded.most(known[name, what][0]):
            before, day, why = known[name, what]
            problems.append(f"{name}: {what} {value:.1f}, {change(value, before)} than {before:.1f} ({day}: {why}), "
                            f"at most {recorded.most(before):.1f} is allowed")
    if problems:
        problems.append(f"  A change may raise a number by {recorded.MORE:.0%}. With a reason for more: "
                        "tests/prove counts --record 'the reason', and commit tests/counts/recorded.tsv")
    return problems


def compared(value, known):
    return f"{known[0]:.1f}, {change(value, known[0])}" if known else "never"


def change(value, before):
    percent = (value - before) / before * 100
    return f"{abs(percent):.1f} % {'more' if percent >= 0 else 'less'}"


def main():
    parser = argparse.ArgumentParser(prog="tests/prove counts", description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--only", default=",".join([*MEASUREMENTS, SERVER]), metavar="NAMES",
                        help=f"of {', '.join([*MEASUREMENTS, SERVER])}, separated by commas")
    parser.add_argument("--record", metavar="REASON", help="writes what calls cost the server into recorded.tsv")
    given = parser.parse_args()
    names = given.only.split(",")
    if unknown := set(names) - {*MEASUREMENTS, SERVER}:
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}")
    if given.record is not None and (not given.record.strip() or "\t" in given.record or SERVER not in names):
        parser.error("--record: needs a reason in one line, and measures the server")
    began, problems = time.monotonic(), []
    if items := [name for name in names if name != SERVER]:
        problems += database(given.binary, items)
    if SERVER in names:
        problems += server(given.binary, given.record)
    print(f"counted in {time.monotonic() - began:.0f} s")
    if problems:
        sys.exit("tests/prove counts: an item costs more than it may; docs/performance.md says how to find out where\n" + "\n".join(problems))


main()
