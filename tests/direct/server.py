"""One of the servers, always at the same address."""

import collections
import re
import urllib.request

from running import free_port, wait_for

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

SERVING = health_pb2.HealthCheckResponse.SERVING
CLAIMS = re.compile(r'^idempotency_ledger_claims_total\{.*consumer="([^"]+)".*\} (\S+)$', re.MULTILINE)


class Server:
    def __init__(self, running, binary, database_url, name):
        self.running, self.binary, self.database_url, self.name = running, binary, database_url, name
        self.address, self.observed = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.start()

    def start(self):
        self.process = self.running.start(self.name, self.binary, "serve", "--listen", self.address, "--observe-listen",
                                          self.observed, "--database-url", self.database_url)
        wait_for(f"{self.name} serves", lambda: self.health("") == SERVING)

    def health(self, service):
        with grpc.insecure_channel(self.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            try:
                return health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=2).status
            except grpc.RpcError:
                return None

    def claims(self):
        """How many claims it has answered, by consumer."""
        claims = collections.Counter()
        with urllib.request.urlopen(f"http://{self.observed}/metrics", timeout=2) as answer:
            for consumer, count in CLAIMS.findall(answer.read().decode()):
                claims[consumer] += float(count)
        return claims
