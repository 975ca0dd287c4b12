"""Clients that reach three servers themselves, by nothing but the service config that is shipped, with grpcio and with
grpc-go: servers are restarted and killed under their load. No call may fail while they are restarted, and one of 100,000
when they are killed; no message may be lost or done twice.

    python tests/direct/suite.py --binary target/debug/idempotency-ledger --database-url postgres://… [--size N]

The database must be empty. The last line is what the run found.
"""

import pathlib
import random
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[0] / "python"))
from running import Running, checked, suite_arguments  # noqa: E402

import go_program  # noqa: E402
from consumers import Consumers  # noqa: E402
from scene import Scene  # noqa: E402
from server import Server  # noqa: E402


def main():
    options = suite_arguments(__doc__, 3, "restarts, and as many kills").parse_args()
    commands = {"grpcio": [sys.executable, HERE / "grpcio_program.py"], "grpc-go": [go_program.build()]}
    subprocess.run([options.binary, "migrate", "--database-url", options.database_url], check=True, stdout=subprocess.DEVNULL)
    with Running() as running:
        servers = [Server(running, options.binary, options.database_url, f"server-{number}") for number in (1, 2, 3)]
        programs = [Consumers(running, library, command, servers) for library, command in commands.items()]
        scene = Scene(servers, programs, options.size, random.Random(options.seed))
        failed = checked([
            ("all servers get calls of all clients", scene.all_serve_all),
            (f"{options.size} restarts fail no call, and what drains gets none", scene.restarts),
            (f"{options.size} kills fail hardly a call, and none for good", scene.kills),
            ("nothing is lost, nothing is done twice", scene.deliver_all_again),
        ])
        if failed:
            for log in ("server-1", *commands):
                print(running.log(log)[-2000:])
    found = "; ".join(", ".join(told) for told in scene.found.values())
    print(f"FOUND {found}" if not failed else f"seed {options.seed}: {found}")
    sys.exit(1 if failed else 0)


main()
