"""Runs an example of a README, as it stands there: run.py README 'first example'."""

import pathlib
import re
import sys

# What a right consumer may take, its shutdown included.
LINES = 20
text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
found = re.search(rf"<!-- run: {sys.argv[2]} -->\n```python\n(.*?)```", text, re.DOTALL)
if not found:
    raise SystemExit(f"{sys.argv[1]} has no {sys.argv[2]}")
example = found[1]
code = [line for line in example.splitlines() if line.strip()]
if len(code) > LINES:
    raise SystemExit(f"the {sys.argv[2]} has {len(code)} lines; at most {LINES} are right")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
exec(compile(example, sys.argv[1], "exec"), {"__name__": "__main__"})
