"""Runs an example of clients/java/README.md, as it stands there: run.py README ARGUMENTS [EXAMPLE]; ARGUMENTS is of build.py."""

import contextlib
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# What a right consumer may take, its shutdown included.
LINES = {"first example": 20, "inbox example": 26}
HERE = pathlib.Path(__file__).resolve().parent
text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
example = sys.argv[3] if len(sys.argv) > 3 else "first example"
found = re.search(rf"<!-- run: {example} -->\n```java\n(.*?)```", text, re.DOTALL)
if not found:
    raise SystemExit(f"{sys.argv[1]} has no {example}")
code = [line for line in found[1].splitlines() if line.strip()]
if len(code) > LINES[example]:
    raise SystemExit(f"the {example} has {len(code)} lines; at most {LINES[example]} are right")
arguments = [line.strip('"') for line in pathlib.Path(sys.argv[2]).read_text().splitlines()]
classpath = arguments[-1]
sources = [HERE / "Broker.java", HERE / "Payments.java"]
name = hashlib.sha256(b"".join([found[1].encode(), *(source.read_bytes() for source in sources)])).hexdigest()[:16]
folder = pathlib.Path(sys.argv[2]).resolve().parent / f"example-{name}"
if not folder.exists():  # It is compiled once, by whichever process is the first to be ready.
    with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
        made = pathlib.Path(fresh) / "made"
        made.mkdir()
        (made / "Consumer.java").write_text(found[1], encoding="utf-8")
        subprocess.run(["javac", "-proc:none", "-d", str(made), "-cp", classpath, str(made / "Consumer.java"),
                        *map(str, sources)], check=True)
        with contextlib.suppress(OSError):
            made.rename(folder)
os.execvp("java", ["java", *arguments[:-1], f"{classpath}:{folder}", "Consumer"])
