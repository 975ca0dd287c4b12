"""How a package proves who it is, and finds the server: by the environment, tokens that are replaced, certificates."""

from __future__ import annotations

import json
import pathlib
import subprocess

from scene import EFFECT, Scene, Server, advises, scenario

NAME = "spiffe://test/consumer"
RIGHTS = """
[[rights]]
principal = "token:consumer"
consumers = ["effects"]
may = ["claim", "settle"]

[[rights]]
principal = "spiffe://test/consumer"
consumers = ["effects"]
may = ["claim", "settle"]
"""


def _openssl(folder: pathlib.Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def _certificate(folder: pathlib.Path, name: str, alternative: str, usage: str) -> None:
    """A certificate that the authority of the folder has signed."""
    (folder / f"{name}.ext").write_text(f"subjectAltName = {alternative}\nextendedKeyUsage = {usage}\n")
    _openssl(folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
             "-keyout", f"{name}.key", "-out", f"{name}.csr")
    _openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
             "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem")


def _secured(s: Scene) -> tuple[Server, str]:
    """A server with TLS, tokens, rights and client certificates; returns it with a token."""
    at = s.folder
    _openssl(at, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    _certificate(at, "server", "IP:127.0.0.1", "serverAuth")
    _certificate(at, "client", f"URI:{NAME}", "clientAuth")
    made = subprocess.run([s.binary, "rights", "token", "consumer", "--json"], capture_output=True, check=True)
    token = json.loads(made.stdout)
    (at / "tokens.toml").write_text(f"[tokens]\n{token['line']}\n")
    (at / "rights.toml").write_text(RIGHTS)
    files = {"tokens-file": "tokens.toml", "rights-file": "rights.toml", "listen-tls-cert": "server.pem",
             "listen-tls-key": "server.key", "listen-tls-client-ca": "ca.pem"}
    port = s.ports()
    server = s.server(*[part for name, file in files.items() for part in (f"--{name}", str(at / file))], port=port,
                      health=(f"https://127.0.0.1:{port}", "--tls-ca", str(at / "ca.pem")))
    return server, str(token["token"])


@scenario()
def token_of_a_file_that_changes(s: Scene) -> None:
    server, token = _secured(s)
    file = s.folder / "token"
    file.write_text(f"{token}\n")
    subject = s.subject(opened=False, environment={
        "LEDGER_ENDPOINT": f"https://{server.address}", "LEDGER_TOKEN_FILE": str(file),
        "LEDGER_CA_FILE": str(s.folder / "ca.pem")})
    subject.send("open", ledger="l", endpoint=None, consumer="effects")
    subject.wait_for("opened")
    advises(subject.process_one(s.new_id(), EFFECT), "ACK")
    file.write_text("ilt_another\n")
    advises(subject.process_one(s.new_id(), EFFECT), "RETRY_LATER", "UNAUTHENTICATED")
    file.write_text(token)
    advises(subject.process_one(s.new_id(), EFFECT), "ACK")


@scenario()
def client_certificate(s: Scene) -> None:
    server, _ = _secured(s)
    environment = {"LEDGER_CA_FILE": str(s.folder / "ca.pem")}
    endpoint = f"https://{server.address}"
    known = s.subject(endpoint=endpoint, environment=environment, client_cert_file=str(s.folder / "client.pem"),
                      client_key_file=str(s.folder / "client.key"))
    advises(known.process_one(s.new_id(), EFFECT), "ACK")
    stranger = s.subject(endpoint=endpoint, environment=environment)
    advises(stranger.process_one(s.new_id(), EFFECT), "RETRY_LATER", "UNAUTHENTICATED")


@scenario()
def several_servers(s: Scene) -> None:
    first = s.server()
    subject = s.subject(endpoint=f"ipv4:127.0.0.1:{s.ports()},{first.address}")
    for _ in range(5):
        advises(subject.process_one(s.new_id(), EFFECT), "ACK")
