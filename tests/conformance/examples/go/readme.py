"""Makes a program of an example of a README, as it stands there: readme.py README FOLDER 'first example'."""

import pathlib
import re
import shutil
import sys

# What a right consumer may take, its shutdown included; the package clause and the imports are not counted.
LINES = {"first example": 20, "inbox example": 25}
readme, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
example = sys.argv[3]
found = re.search(rf"<!-- run: {example} -->\n```go\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
if not found:
    raise SystemExit(f"{readme} has no {example}")
body = found[1].partition("\n)\n")[2]
code = [line for line in body.splitlines() if line.strip()]
if not code or len(code) > LINES[example]:
    raise SystemExit(f"the {example} has {len(code)} lines after its imports; 1 to {LINES[example]} are right")
shutil.copytree(pathlib.Path(__file__).resolve().parent, folder, dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("*.py", "__pycache__"))
(folder / "main.go").write_text(found[1], encoding="utf-8")
