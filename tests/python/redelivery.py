"""A real broker redelivers real CloudEvents to a real consumer that dies, stands still and fails.

Counts the effects in three sinks. The ledger can not know what happened between an effect and its
Complete, nor stop a zombie: there, and only there, a plain sink sees two. A fenced sink and one
that deduplicates by idempotency_key see exactly one, always.
"""

import asyncio
import json
import os
import pathlib
import shutil
import signal
import sys

import nats
from running import ROOT, Running, free_port, options, wait_for

import grpc
from producer import cloud_event, publish
from sinks import Sinks
from stubs import admin_pb, admin_rpc, pb

POLICY = """
[consumers."payments"]
lease = "1s"
reclaim_grace = "200ms"
max_attempts = 3
backoff = { initial = "100ms", max = "500ms" }
"""

# id: (what happens, where and by which signal, copies published, effects expected: plain, fenced, deduplicating)
SCENARIOS = {
    "quiet": ("nothing happens", None, 1, (1, 1, 1)),
    "duplicates": ("the producer publishes three times", None, 3, (1, 1, 1)),
    "crash-before-effect": ("kill -9 before the effect", ("before effect", "SIGKILL"), 1, (1, 1, 1)),
    "crash-after-effect": ("kill -9 between effect and Complete", ("after effect", "SIGKILL"), 1, (2, 1, 1)),
    "crash-before-ack": ("kill -9 between Complete and ack", ("before ack", "SIGKILL"), 1, (1, 1, 1)),
    "zombie": ("paused beyond its lease, then resumed", ("before effect", "SIGSTOP"), 1, (2, 1, 1)),
    "poison": ("fails until it is parked", None, 2, (0, 0, 0)),
}
WORKERS = 2


def main():
    chosen = options(__doc__)
    if not shutil.which("nats-server"):
        sys.exit("nats-server is missing; install it: apt-get install -y nats-server")
    with Running() as running:
        policy = running.path / "policy.toml"
        policy.write_text(POLICY)
        _, address = running.serve(chosen.binary, chosen.database_url, "--config", policy)
        port = free_port()
        running.start("broker", "nats-server", "-js", "-a", "127.0.0.1", "-p", port, "-sd", running.path / "broker")
        url = f"nats://127.0.0.1:{port}"
        wait_for("the broker listens", lambda: "Server is ready" in running.log("broker"))

        events = []
        for name, (_, _, copies, _) in SCENARIOS.items():
            events += [cloud_event(name, "poison" if name == "poison" else "payment")] * copies
        asyncio.run(publish(url, events))

        done = running.path / "done"
        done.mkdir()
        plan = {name: fault for name, (_, fault, _, _) in SCENARIOS.items() if fault}
        environment = {**os.environ, "FAULTS": json.dumps(plan), "FAULTS_DONE": str(done)}
        consumer = ROOT / "examples" / "consumer" / "consumer.py"
        sink_file = running.path / "sinks.db"
        sinks = Sinks(sink_file)
        workers = []

        def worker():
            workers.append(running.start(
                "consumer", sys.executable, consumer, "--nats", url, "--ledger", address,
                "--sinks", sink_file, "--ack-wait", 2, environment=environment))

        for _ in range(WORKERS):
            worker()

        def supervised():
            """Starts a worker for each that was killed; the one that stands still is left so."""
            killed = [one for one in workers if one.poll() is not None]
            for one in killed:
                assert one.returncode == -signal.SIGKILL, running.log("consumer")
                workers.remove(one)
                worker()

        ledger = admin_rpc.AdminServiceStub(grpc.insecure_channel(address))

        def state(name):
            key = pb.EntryKey(consumer="payments", source="shop/checkout", id=name)
            try:
                entry = ledger.GetEntry(admin_pb.GetEntryRequest(key=key), timeout=5).entry
            except grpc.RpcError:
                return "UNKNOWN"
            return pb.EntryState.Name(entry.state).removeprefix("ENTRY_STATE_")

        def settled():
            supervised()
            return all(state(name) == ("PARKED" if name == "poison" else "COMPLETED") for name in SCENARIOS)

        wait_for("every message is completed or parked", settled, seconds=60)
        # Everybody else has finished: now the zombie wakes up, and does what it was about to do.
        zombie = int((done / "zombie").read_text())
        assert sinks.count("plain", "zombie") == 1
        os.kill(zombie, signal.SIGCONT)
        wait_for("the zombie's effect", lambda: supervised() or sinks.count("plain", "zombie") == 2)

        async def broker_state():
            broker = await nats.connect(url)
            stream = broker.jetstream()
            info = await stream.consumer_info("EVENTS", "payments")
            dead = await stream.stream_info("DEAD")
            await broker.close()
            return info.num_pending + info.num_ack_pending, dead.state.messages

        def drained():
            supervised()
            return asyncio.run(broker_state())[0] == 0

        wait_for("every message is acknowledged", drained, seconds=30, every=0.3)
        dead_letters = asyncio.run(broker_state())[1]
        sys.exit(report(sinks, dead_letters, state("poison"), pathlib.Path(done)))


def report(sinks, dead_letters, poison_state, done):
    passed = failed = 0
    print(f"\n{'scenario':<40}" + "".join(f"{name:>15}" for name in Sinks.NAMES))
    for name, (what, fault, _, expected) in SCENARIOS.items():
        counts = tuple(sinks.count(sink, name) for sink in Sinks.NAMES)
        right = counts == expected and (fault is None or (done / name).exists())
        passed, failed = passed + right, failed + (not right)
        note = "" if right else f"   WRONG: expected {expected}"
        print(f"{what:<40}" + "".join(f"{count:>15}" for count in counts) + note)
    for what, right in {
        "the fenced sink refused the zombie's token": sinks.count("refused", "zombie") == 1,
        "the poisoned message is parked": poison_state == "PARKED",
        "the poisoned message is dead-lettered once": dead_letters == 1,
    }.items():
        passed, failed = passed + right, failed + (not right)
        print(f"{'ok' if right else 'WRONG'}: {what}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    main()
