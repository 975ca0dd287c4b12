"""Runs the first example of clients/java/README.md, as it stands there: run.py README ARGUMENTS, a file of build.py."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

# What a right consumer may take, its shutdown included.
LINES = 20
HERE = pathlib.Path(__file__).resolve().parent
text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
found = re.search(r"<!-- run: first example -->\n```java\n(.*?)```", text, re.DOTALL)
if not found:
    raise SystemExit(f"{sys.argv[1]} has no first example")
code = [line for line in found[1].splitlines() if line.strip()]
if len(code) > LINES:
    raise SystemExit(f"the first example has {len(code)} lines; at most {LINES} are right")
arguments = [line.strip('"') for line in pathlib.Path(sys.argv[2]).read_text().splitlines()]
classpath = arguments[-1]
# It is left to the system's folder for such things: the process becomes the example, and a scenario kills it.
folder = pathlib.Path(tempfile.mkdtemp(prefix="ledger-example-"))
(folder / "Consumer.java").write_text(found[1], encoding="utf-8")
sources = [str(file) for file in (folder / "Consumer.java", HERE / "Broker.java", HERE / "Payments.java")]
subprocess.run(["javac", "-proc:none", "-d", str(folder), "-cp", classpath, *sources], check=True)
os.execvp("java", ["java", *arguments[:-1], f"{classpath}:{folder}", "Consumer"])
