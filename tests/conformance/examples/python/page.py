"""Runs the whole test of docs/testing-consumers.md with pytest, as it stands there: page.py PAGE."""

import pathlib
import re
import subprocess
import sys
import tempfile

text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
found = re.search(r"<!-- run: whole test -->\n```python\n(.*?)```", text, re.DOTALL)
if not found:
    raise SystemExit(f"{sys.argv[1]} has no whole test")
with tempfile.TemporaryDirectory(prefix="ledger-page-") as folder:
    test = pathlib.Path(folder, "test_consumer.py")
    test.write_text(found[1], encoding="utf-8")
    raise SystemExit(subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test], check=False).returncode)
