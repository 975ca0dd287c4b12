"""The secrets of Compose, made by the commands of deploy/README.md as they stand there."""

import os
import re
import subprocess


def make(deploy, program):
    text = (deploy / "README.md").read_text()
    block = re.search(r"<!-- tests/deploy runs this: begin -->\n```sh\n(.*?)```\n<!-- end -->", text, re.DOTALL)[1]
    docker = deploy.parent / "bin/docker"
    docker.parent.mkdir()
    # The image has the program alone.
    docker.write_text(f'#!/bin/sh\n[ "$1 $2 $3" = "run --rm idempotency-ledger:{program.version}" ] && shift 3 && exec {program.binary} "$@"\n')
    docker.chmod(0o755)
    path = f"{docker.parent}:{os.environ['PATH']}"
    subprocess.run(["sh", "-eu", "-c", block], cwd=deploy.parent, check=True, env={**os.environ, "PATH": path})
