"""How the servers are reached: the endpoint, TLS, the bearer token, and how calls are spread over several servers."""

from __future__ import annotations

import ipaddress
import os
import pathlib
import threading
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

import grpc

from .errors import InvalidField

# Of deploy/clients/service-config.json what spreads the calls. Its retries are left out, since this package repeats
# by itself what gRPC does not; and so is its timeout, which would end a Claim that waits.
SERVICE_CONFIG = """{
  "loadBalancingConfig": [{ "round_robin": {} }],
  "healthCheckConfig": { "serviceName": "accepting" }
}"""
_OPTIONS: List[Tuple[str, Any]] = [
    ("grpc.service_config", SERVICE_CONFIG),
    # A server that was replaced is found again within the budget of a call; the defaults are 1 s to 120 s.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # A connection that is gone without a sign is noticed after 25 s rather than by TCP after a quarter of an hour.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Two clients of one process have separate connections: their credentials may differ.
    ("grpc.use_local_subchannel_pool", 1),
]


_LISTS = ("ipv4:", "ipv6:")


class TokenFile(grpc.AuthMetadataPlugin):  # type: ignore[misc]
    """The bearer token of a file, which is read again when the file changes."""

    def __init__(self, path: str) -> None:
        self._path = pathlib.Path(path)
        self._lock = threading.Lock()
        self._read: Tuple[object, str] = (None, "")

    def token(self) -> str:
        """The token as the file has it now."""
        with self._lock:
            found = self._path.stat()
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if self._read[0] != seen:
                self._read = (seen, self._path.read_text(encoding="utf-8").strip())
            return self._read[1]

    def __call__(self, context: object, callback: Any) -> None:
        try:
            callback((("authorization", f"Bearer {self.token()}"),), None)
        except OSError as error:
            callback((), error)


@dataclass(frozen=True)
class Connection:
    """The options of a connection; `None` is taken from the environment where there is a variable."""

    endpoint: Optional[str] = None
    """``HOST:PORT``, ``http://HOST:PORT``, ``https://HOST:PORT`` or a gRPC target such as ``dns:///HOST:PORT``, also of
    several servers. Variable: LEDGER_ENDPOINT; default: 127.0.0.1:50051."""
    token_file: Optional[str] = None
    """A file with a bearer token, read again when it changes. Variable: LEDGER_TOKEN_FILE."""
    ca_file: Optional[str] = None
    """A PEM file with the authorities of the servers' certificates; it asks for TLS. Variable: LEDGER_CA_FILE."""
    client_cert_file: Optional[str] = None
    """A PEM file with the client's certificate, and those between it and its authority's."""
    client_key_file: Optional[str] = None
    """A PEM file with the private key of that certificate."""

    def resolved(self) -> Connection:
        """The same with what the environment adds; `InvalidField` where the parts contradict each other."""
        found = Connection(
            self.endpoint or os.environ.get("LEDGER_ENDPOINT") or "127.0.0.1:50051",
            self.token_file or os.environ.get("LEDGER_TOKEN_FILE") or None,
            self.ca_file or os.environ.get("LEDGER_CA_FILE") or None,
            self.client_cert_file,
            self.client_key_file,
        )
        target, tls = found.target()
        if tls and target.startswith(_LISTS):
            raise InvalidField(
                "endpoint", f"no certificate is for the list {target}; use https://NAME:PORT of all servers"
            )
        if found.token_file and not tls:
            raise InvalidField("token_file", f"the token would be sent in the clear to {found.endpoint}; use https://")
        if bool(found.client_cert_file) != bool(found.client_key_file):
            raise InvalidField("client_cert_file", "a certificate and its key are given together")
        if found.client_cert_file and not tls:
            raise InvalidField("client_cert_file", f"{found.endpoint} is reached without TLS; use https://")
        return found

    def target(self) -> Tuple[str, bool]:
        """The target as gRPC takes it, and whether it is reached by TLS."""
        endpoint = self.endpoint or ""
        for scheme, tls in (("https://", True), ("http://", False)):
            if endpoint.startswith(scheme):
                if not tls and self.ca_file:
                    raise InvalidField("endpoint", f"{endpoint} is reached without TLS, but a ca_file is given")
                return _dns(endpoint[len(scheme) :].rstrip("/")), tls
        return _dns(endpoint), bool(self.ca_file)

    def options(self) -> List[Tuple[str, Any]]:
        """The arguments of the channel."""
        target, _ = self.target()
        # With a list of addresses the list would be sent as the server's name, and no call would get through.
        named = [("grpc.default_authority", "ledger")] if target.startswith(_LISTS) else []
        return [*_OPTIONS, *named]

    def credentials(self) -> Optional[grpc.ChannelCredentials]:
        """The credentials of the channel; `None` without TLS."""
        if not self.target()[1]:
            return None

        def read(path: Optional[str]) -> Optional[bytes]:
            return pathlib.Path(path).read_bytes() if path else None

        tls = grpc.ssl_channel_credentials(read(self.ca_file), read(self.client_key_file), read(self.client_cert_file))
        if not self.token_file:
            return tls
        return grpc.composite_channel_credentials(tls, grpc.metadata_call_credentials(TokenFile(self.token_file)))


def _dns(target: str) -> str:
    """A bare HOST:PORT as a target that finds every server behind the name; others as they are."""
    host, colon, port = target.rpartition(":")
    if "/" in target or target.startswith(("unix:", "ipv4:", "ipv6:", "dns:")):
        return target
    if not colon or not port.isdigit() or not host:
        raise InvalidField("endpoint", f"{target!r} is not HOST:PORT, http(s)://HOST:PORT or a gRPC target")
    try:
        ipaddress.ip_address(host.strip("[]"))
        return target
    except ValueError:
        return f"dns:///{target}"
