"""Prints what a program of a release costs, and records it in results.tsv: python release-figures.py PROGRAM IMAGE

Its size and that of the image; the time from its start with a new SQLite file to its first ready answer,
the median of 11; and its resident memory after ten seconds without a call.
"""

import datetime
import http.client
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

STARTS = 11
REST = 10
RESULTS = pathlib.Path(__file__).resolve().parent / "results.tsv"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def ready(port):
    """True where the server at this port says that it serves."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def started(program, rest):
    """The milliseconds to its first ready answer, and the KiB that are resident after this rest."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        began = time.monotonic()
        command = [program, "serve", "--database-url", f"sqlite://{folder}/ledger.db", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0",
                   "--observe-listen", f"127.0.0.1:{port}"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            while not ready(port):
                if server.poll() is not None or time.monotonic() > began + 60:
                    raise SystemExit(f"{program} does not serve")
                time.sleep(0.001)
            taken = (time.monotonic() - began) * 1000
            time.sleep(rest)
            status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
            server.terminate()
            if server.wait(60) != 0:
                raise SystemExit(f"{program} has ended with {server.returncode}")
    return taken, int(status.split("VmRSS:")[1].split()[0])


def main():
    program, image = map(pathlib.Path, sys.argv[1:])
    times = [started(program, 0)[0] for _ in range(STARTS)]
    resident = started(program, REST)[1]
    figures = (f"program {program.stat().st_size / 1e6:.1f} MB; image {image.stat().st_size / 1e6:.1f} MB to download; ready after"
               f" {statistics.median(times):.0f} ms (median of {STARTS}); {resident / 1024:.0f} MiB resident at rest")
    print(f"FIGURES {figures}")
    kept = [line for line in RESULTS.read_text().splitlines() if not line.startswith("release\t")]
    kept.append(f"release\t{datetime.date.today().isoformat()}\t{STARTS}\t{figures}")
    RESULTS.write_text("\n".join(kept) + "\n")


if __name__ == "__main__":
    main()
