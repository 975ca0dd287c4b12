"""A server with TLS, tokens and rights: the metrics of credentials are there with them alone."""

import subprocess
import uuid

import grpc
from running import free_port, wait_for
from stubs import pb, rpc

NAME, PERSON, CONSUMER = "localhost", "story", "stale"
# More than a hundred in each ten minutes of an hour.
STRANGERS = 900
EXTENSIONS = f"""
[req]
distinguished_name = subject
x509_extensions = own
[subject]
[own]
subjectAltName = DNS:{NAME}
[ca]
default_ca = lists
[lists]
default_md = sha256
database = revoked.txt
crlnumber = number.txt
"""


class Secured:
    """The server, and what happens to it."""

    def __init__(self, running, binary):
        self.running, self.binary = running, binary
        self.observed, self.address = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        made = subprocess.run([binary, "rights", "token", PERSON], capture_output=True, text=True, check=True).stderr
        self.tokens = f"[tokens]\n{next(line for line in made.splitlines() if line.startswith(PERSON))}\n"
        self.path("tokens.toml").write_text(self.tokens)
        self.path("rights.toml").write_text(
            f'[[rights]]\nprincipal = "token:{PERSON}"\nconsumers = ["{CONSUMER}"]\nmay = ["claim", "settle"]\n')
        self.path("openssl.cnf").write_text(EXTENSIONS)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                        "-subj", f"/CN={NAME}", "-config", self.path("openssl.cnf"), "-keyout", self.path("key.pem"),
                        "-out", self.path("cert.pem")], check=True, capture_output=True)
        # It revoked nothing yet. Clients may show a certificate; here nobody has one.
        self.path("revoked.txt").write_text("")
        self.path("number.txt").write_text("01\n")
        subprocess.run(["openssl", "ca", "-gencrl", "-config", self.path("openssl.cnf"), "-keyfile", self.path("key.pem"),
                        "-cert", self.path("cert.pem"), "-crldays", "30", "-out", self.path("crl.pem")],
                       check=True, capture_output=True, cwd=self.running.path)
        running.start("secured", binary, "serve", "--listen", self.address, "--observe-listen", self.observed,
                      "--database-url", f"sqlite://{self.path('secured.db')}", "--log-format", "json",
                      "--tokens-file", self.path("tokens.toml"), "--rights-file", self.path("rights.toml"),
                      "--listen-tls-cert", self.path("cert.pem"), "--listen-tls-key", self.path("key.pem"),
                      "--listen-tls-client-ca", self.path("cert.pem"), "--listen-tls-client-crl", self.path("crl.pem"))
        asked = [binary, "health", "--address", f"https://{self.address}", "--tls-ca", self.path("cert.pem"), "--tls-domain", NAME]
        wait_for("the server with TLS is healthy", lambda: subprocess.run(asked, capture_output=True).returncode == 0)

    def path(self, name):
        return self.running.path / name

    def log(self):
        return self.running.log("secured")

    def words(self):
        """What the commands of the runbooks name."""
        return {"https://HOST:PORT": f"https://{self.address}", "CA_FILE": str(self.path("cert.pem")), "CRL_FILE": str(self.path("crl.pem")), "NAME": NAME,
                "RIGHTS_FILE": str(self.path("rights.toml")), "TOKENS_FILE": str(self.path("tokens.toml")),
                "PRINCIPAL": f"token:{PERSON}", "CONSUMER": CONSUMER, "RPC": "Claim"}

    # What happens.

    def strangers(self):
        certificate = grpc.ssl_channel_credentials(self.path("cert.pem").read_bytes())
        with grpc.secure_channel(self.address, certificate, options=[("grpc.ssl_target_name_override", NAME)]) as channel:
            ledger = rpc.LedgerServiceStub(channel)
            for number in range(STRANGERS):
                key = pb.EntryKey(consumer=CONSUMER, source="story", id=str(number))
                try:
                    ledger.Claim(pb.ClaimRequest(key=key, claim_id=str(uuid.uuid4())), timeout=5,
                                 metadata=[("authorization", "Bearer old")])
                except grpc.RpcError as error:
                    assert error.code() is grpc.StatusCode.UNAUTHENTICATED, error
                else:
                    raise AssertionError("a stranger was let in")

    def broken_file(self):
        self.path("tokens.toml").write_text("[tokens")

    def mended_file(self):
        self.path("tokens.toml").write_text(self.tokens)
