"""What calls cost the server when that was last recorded, with the reason: recorded.tsv."""

import datetime
import pathlib
import subprocess

FILE = pathlib.Path(__file__).with_name("recorded.tsv")
WHATS = ("instructions", "allocations")
# A change may raise a number by this share without a reason.
MORE = 0.02
HEADING = "# what a call costs the server: tests/prove counts --record 'the reason' writes this file"


def _first_line(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or ["unknown"])[0].strip()


def tools():
    """With others the same source has other numbers."""
    return f"{_first_line('rustc', '--version')}; {_first_line('valgrind', '--version')}; {_first_line('getconf', 'GNU_LIBC_VERSION')}"


def read():
    """The tools with which it was recorded, and by name what was measured and why it is so."""
    lines = FILE.read_text().splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    with_tools = next((line.removeprefix("# with ") for line in lines if line.startswith("# with ")), "")
    return with_tools, {(name, what): (float(value), day, reason) for name, what, value, day, reason in rows}


def most(before):
    return before * (1 + MORE)


def least(before):
    """With less the number is worth recording again."""
    return before * (1 - MORE)


def write(measured, reason):
    """A number that has moved by more than is left to chance is recorded with this reason; the others stay as they are."""
    with_tools, known = read() if FILE.exists() else ("", {})
    lines = [HEADING, f"# with {tools()}"]
    for (name, what), value in measured.items():
        before = known.get((name, what))
        if before is None or with_tools != tools() or not least(before[0]) <= value <= most(before[0]):
            before = (value, datetime.date.today().isoformat(), reason)
        lines.append("\t".join([name, what, f"{before[0]:.2f}" if what == "allocations" else f"{before[0]:.0f}", before[1], before[2]]))
    FILE.write_text("\n".join(lines) + "\n")
