"""The way to the ledger: with TLS where the endpoint says https://, and with a token where a file of one is named.

The names are those of the command line: IDEMPOTENCY_LEDGER_ENDPOINT, IDEMPOTENCY_LEDGER_TLS_CA and
IDEMPOTENCY_LEDGER_TOKEN_FILE.
"""

import os
import pathlib

import grpc


class Token(grpc.AuthMetadataPlugin):
    """Reads its file for each call, so that a token which is replaced there is in force immediately."""

    def __init__(self, file):
        self._file = pathlib.Path(file)

    def __call__(self, _context, callback):
        try:
            token = self._file.read_text().strip()
        except OSError as error:
            return callback((), error)
        callback((("authorization", f"Bearer {token}"),), None)


def channel(endpoint, kind=grpc):
    """A channel to `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`; `kind` is `grpc` or `grpc.aio`."""
    scheme, _, address = endpoint.rpartition("://")
    address = address.rstrip("/")
    authority, token = (os.environ.get(f"IDEMPOTENCY_LEDGER_{name}") for name in ("TLS_CA", "TOKEN_FILE"))
    if scheme in ("", "http"):
        if token:
            raise SystemExit(f"{endpoint}: a token would be sent in the clear; give https://HOST:PORT")
        return kind.insecure_channel(address)
    if scheme != "https":
        raise SystemExit(f"{endpoint}: give HOST:PORT, http://HOST:PORT or https://HOST:PORT")
    roots = pathlib.Path(authority).read_bytes() if authority else None
    credentials = grpc.ssl_channel_credentials(roots)
    if token:
        credentials = grpc.composite_channel_credentials(credentials, grpc.metadata_call_credentials(Token(token)))
    return kind.secure_channel(address, credentials)
