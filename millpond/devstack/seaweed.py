"""SeaweedFS as the stack's object store: one static binary, real disk, everything on loopback."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from millpond.devstack.errors import MissingToolError
from millpond.devstack.ports import LOOPBACK, free_port
from millpond.devstack.store import Credentials, ObjectStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Every HTTP port of SeaweedFS has a gRPC twin this far above it.
_GRPC_OFFSET = 10_000
_ROLES = ("master", "volume", "filer", "s3", "admin")
# The level at which the S3 gateway logs every PutObject it is about to serve, once.
_PUT_LOG = "-vmodule=s3api_object_handlers_put=2"
_PUT_LINE = re.compile(r" PutObjectHandler bucket=(\S+) object=(.*) size=-?\d+$")
_SOCKET_LINE = re.compile(r" gRPC also listening on Unix socket (/tmp/seaweedfs-\S+\.sock)$")


class SeaweedStore(ObjectStore):
    """`weed mini` with one identity; objects survive its death, restarts and SIGKILL."""

    # An orderly end takes it about 4 s.
    stop_seconds = 10.0
    stops_slowly = True
    port_taken_words = "port allocation failed"

    def __init__(self, *, bucket: str, folder: Path, logs: Path) -> None:
        super().__init__("seaweedfs", bucket=bucket, folder=folder, logs=logs)
        self._credentials = Credentials(f"dev{secrets.token_hex(8)}", secrets.token_urlsafe(24))
        self._ports: dict[str, int] = {}

    @property
    def credentials(self) -> Credentials:
        """The one identity, made up for this store."""
        return self._credentials

    def choose_ports(self) -> None:
        """An HTTP port for each role, its gRPC twin free as well."""
        self._ports = {}
        for role in _ROLES:
            taken = {port + twin for port in self._ports.values() for twin in (0, _GRPC_OFFSET)}
            self._ports[role] = free_port(twin_offset=_GRPC_OFFSET, taken=frozenset(taken))
        self._port = self._ports["s3"]

    def command(self) -> Sequence[str]:
        """`weed mini`, bound to loopback, without telemetry, web interfaces and silent bucket creation."""
        self._write_identity()
        ports = [f"-{role}.port={port}" for role, port in self._ports.items()]
        return [
            *(_weed(), "-logtostderr", _PUT_LOG, "mini"),
            *(f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}", f"-dir={self.folder}", *ports),
            *(f"-s3.config={self._identity_path}", "-s3.iam=false"),
            *("-s3.autoCreateBucket=false", "-s3.allowDeleteBucketNotEmpty=false"),
            *("-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"),
            "-master.telemetry=false",
        ]

    def environment(self) -> Mapping[str, str]:
        """Nothing of ours: SeaweedFS would take AWS_* keys, S3_BUCKET and WEED_* for its configuration."""
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder)}

    def logged_put(self, line: str) -> tuple[str, str] | None:
        """The gateway's line about a PutObject it has authenticated."""
        found = _PUT_LINE.search(line)
        return (found[1], found[2]) if found else None

    def clean_up(self) -> None:
        """Remove the Unix sockets it opens in /tmp and leaves there when it is killed."""
        for role, port in self._ports.items():
            for name in (f"{role}-{port}", f"{role}-grpc-{port + _GRPC_OFFSET}"):
                Path(f"/tmp/seaweedfs-{name}.sock").unlink(missing_ok=True)  # noqa: S108 - its own fixed place
        # A gRPC port that was taken moves to another: only the log tells which sockets these are. One that
        # was opened just before the end may not have been logged, so that both ways are needed.
        for line in self.log_lines():
            if found := _SOCKET_LINE.search(line):
                Path(found[1]).unlink(missing_ok=True)

    @property
    def _identity_path(self) -> Path:
        return self.folder / "s3.json"

    def _write_identity(self) -> None:
        pair = self._credentials
        identity = {
            "name": "millpond",
            "credentials": [{"accessKey": pair.access_key, "secretKey": pair.secret_key}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
        self._identity_path.touch(mode=0o600)
        self._identity_path.write_text(json.dumps({"identities": [identity]}), encoding="utf-8")


def _weed() -> str:
    # The wheel puts the program beside our interpreter, which need not be on PATH.
    program = shutil.which("weed", path=sysconfig.get_path("scripts")) or shutil.which("weed")
    if program is None:
        raise MissingToolError("weed is not installed: pip install 'millpond[devstack]', or use --store moto")
    return program
