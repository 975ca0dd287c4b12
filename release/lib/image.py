"""The image: the program, certificates and a user without rights; both architectures in one index, as an OCI layout."""

import hashlib
import json
import time

from . import pack
from .release import ARCHITECTURES, NAME, SUMMARY

USER = 65532
# What deploy/Containerfile sets: inside a container the address must be one that others reach.
ENVIRONMENT = ["IDEMPOTENCY_LEDGER_LISTEN=0.0.0.0:50051", "IDEMPOTENCY_LEDGER_OBSERVE_LISTEN=0.0.0.0:9464",
               "PATH=/usr/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"]
PORTS = ["50051/tcp", "9464/tcp"]
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


class Layout:
    """The blobs of an image, each under its own digest."""

    def __init__(self):
        self.blobs = {}

    def add(self, data, media, **more):
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data), **more}

    def add_json(self, value, media, **more):
        return self.add(json.dumps(value, sort_keys=True, separators=(",", ":")).encode(), media, **more)


def layer(release, architecture):
    user = f"root:x:0:0:root:/:/nonexistent\nnonroot:x:{USER}:{USER}:nonroot:/data:/nonexistent\n"
    group = f"root:x:0:\nnonroot:x:{USER}:\n"
    # The folder of the SQLite file, and that of temporary files; the rest of the file system needs no writing.
    folders = [("etc/", 0o755, 0), ("etc/ssl/", 0o755, 0), ("etc/ssl/certs/", 0o755, 0), ("usr/", 0o755, 0), ("usr/bin/", 0o755, 0),
               ("tmp/", 0o1777, 0), ("data/", 0o700, USER)]
    entries = [pack.Entry(name, None, mode, owner) for name, mode, owner in folders]
    entries += [pack.Entry("etc/passwd", user.encode()), pack.Entry("etc/group", group.encode()),
                pack.Entry("etc/ssl/certs/ca-certificates.crt", release.authorities),
                pack.Entry(f"usr/bin/{NAME}", release.programs[architecture], 0o755)]
    return pack.tar(entries, release.epoch)


def archive(release):
    """The layout in one tar archive, as `skopeo copy oci-archive:FILE …` and `podman load` take it."""
    layout, manifests = Layout(), []
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(release.epoch))
    labels = {"org.opencontainers.image.title": NAME, "org.opencontainers.image.description": SUMMARY,
              "org.opencontainers.image.version": release.version, "org.opencontainers.image.revision": release.commit,
              "org.opencontainers.image.licenses": "Apache-2.0"}
    for architecture in ARCHITECTURES:
        plain = layer(release, architecture)
        config = {
            "created": created, "architecture": architecture.oci, "os": "linux",
            "config": {"User": f"{USER}:{USER}", "Env": ENVIRONMENT, "Entrypoint": [f"/usr/bin/{NAME}"], "Cmd": ["serve"],
                       "WorkingDir": "/", "ExposedPorts": {port: {} for port in PORTS}, "StopSignal": "SIGTERM", "Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
            "history": [{"created": created, "created_by": "release/build"}],
        }
        if architecture.oci == "arm64":
            config["variant"] = "v8"
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": layout.add_json(config, CONFIG),
                    "layers": [layout.add(pack.compressed(plain), LAYER)], "annotations": labels}
        where = {"os": "linux", "architecture": architecture.oci, **({"variant": "v8"} if architecture.oci == "arm64" else {})}
        manifests.append(layout.add_json(manifest, MANIFEST, platform=where))
    both = layout.add_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": labels}, INDEX,
                           annotations={"org.opencontainers.image.ref.name": release.version})
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
             "index.json": json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [both]}, sort_keys=True).encode(), **layout.blobs}
    entries = [pack.Entry(name, data) for name, data in files.items()]
    return f"{NAME}-{release.version}-image.oci.tar", pack.tar(entries, release.epoch)
