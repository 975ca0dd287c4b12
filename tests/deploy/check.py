"""What deploy/ says, against the program and the tools that know the formats.

    python tests/deploy/check.py --binary target/debug/idempotency-ledger --database-url URL
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import breaks  # noqa: E402
import chart  # noqa: E402
import compose  # noqa: E402
import container  # noqa: E402
import envoy  # noqa: E402
import kubernetes  # noqa: E402
import prometheus  # noqa: E402
import service_config  # noqa: E402
import started  # noqa: E402
import unit  # noqa: E402
from facts import ROOT, Program  # noqa: E402

CHECKS = {
    "hadolint": container.lint,
    "container": container.check,
    "compose-schema": compose.schema,
    "compose": compose.check,
    "kubernetes-schema": kubernetes.schema,
    "kubernetes": kubernetes.check,
    "chart": chart.check,
    "rendered": chart.rendered,
    "systemd-analyze": unit.analyze,
    "systemd": unit.check,
    "envoy-validate": envoy.validate,
    "envoy": envoy.check,
    "envoy-of-compose": envoy.derived,
    "prometheus": prometheus.check,
    "service-config": service_config.check,
}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--binary", required=True)
    arguments.add_argument("--database-url", required=True, help="an empty Postgres")
    options = arguments.parse_args()
    program = Program(options.binary)
    problems = [problem for check in CHECKS.values() for problem in check(ROOT / "deploy", program)]
    if not problems:
        print(f"{', '.join(CHECKS)}: nothing is wrong")
        problems = breaks.unseen(CHECKS, program)
        print(f"{len(breaks.BREAKS)} mistakes made, {len(breaks.BREAKS) - len(problems)} seen")
    if not problems:
        problems = started.check(ROOT / "deploy", program, options.database_url)
        print("the servers of all recipes were started, asked and ended")
    for problem in problems:
        print(f"WRONG: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


main()
