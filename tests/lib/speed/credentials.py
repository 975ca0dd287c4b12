"""The credentials of a server and its clients: a certificate, tokens and rights, in a separate folder."""

import base64
import json
import pathlib
import subprocess
import tempfile
import time

RIGHTS = '[[rights]]\nprincipal = "*"\nconsumers = ["{consumers}"]\nmay = ["claim", "settle"]\n'
ISSUER = "https://login.example"
# In any order, as many as one likes: "tls", and at most one of the tokens.
KINDS = ("tls", "token", "web-token")


class Credentials:
    """Made once; `of` says which flags a server and its clients get."""

    def __init__(self, ledger, consumers="bench-*"):
        self._held = tempfile.TemporaryDirectory(prefix="ledger-credentials.")
        self.folder = pathlib.Path(self._held.name)
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=bench",
                      "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE",
                      "-keyout", self._path("key.pem"), "-out", self._path("cert.pem"))
        shown = subprocess.run([ledger, "rights", "token", "bench", "--json"], capture_output=True, text=True, check=True).stdout
        made = json.loads(shown)
        self._write("tokens.toml", f'[tokens]\nbench = ["{made["hash"]}"]\n')
        self._write("rights.toml", RIGHTS.format(consumers=consumers))
        self._write("token", made["token"])
        self._web_token()
        self._write("ledger.toml", f'rights_file = "{self._path("rights.toml")}"\n[issuers.bench]\nissuer = "{ISSUER}"\n'
                    f'audiences = ["ledger"]\njwks_file = "{self._path("keys.json")}"\n')

    def of(self, kinds):
        """The flags of a server, the flags of its clients, and what their endpoint begins with."""
        if unknown := set(kinds) - set(KINDS):
            raise ValueError(f"{unknown} is none of {KINDS}")
        server, client, scheme = [], [], "http://"
        if "tls" in kinds:
            server += ["--listen-tls-cert", self._path("cert.pem"), "--listen-tls-key", self._path("key.pem")]
            client += ["--tls-ca", self._path("cert.pem")]
            scheme = "https://"
        if "token" in kinds:
            server += ["--tokens-file", self._path("tokens.toml"), "--rights-file", self._path("rights.toml")]
            client += ["--token-file", self._path("token")]
        if "web-token" in kinds:
            server += ["--config", self._path("ledger.toml")]
            client += ["--token-file", self._path("web-token")]
        return server, client, scheme

    def end(self):
        self._held.cleanup()

    def _web_token(self):
        """Signed with RS256, as most issuers do it."""
        key = self._path("issuer.pem")
        self._openssl("genrsa", "-out", key, "2048")
        modulus = self._openssl("rsa", "-in", key, "-noout", "-modulus").decode().strip().removeprefix("Modulus=")
        self._write("keys.json", json.dumps({"keys": [{"kty": "RSA", "kid": "1", "n": _encoded(bytes.fromhex(modulus)), "e": "AQAB"}]}))
        claims = {"iss": ISSUER, "aud": "ledger", "sub": "bench", "exp": int(time.time()) + 86_400}
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "1"}, claims))
        self._write("signed", signed)
        signature = self._openssl("dgst", "-sha256", "-sign", key, self._path("signed"))
        self._write("web-token", f"{signed}.{_encoded(signature)}")

    def _path(self, name):
        return str(self.folder / name)

    def _write(self, name, text):
        (self.folder / name).write_text(text)

    @staticmethod
    def _openssl(*arguments):
        done = subprocess.run(["openssl", *arguments], capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout


def _encoded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
