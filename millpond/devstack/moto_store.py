"""moto's S3 server with authentication switched on: another code base to check the client against."""

from __future__ import annotations

import json
import re
import sys
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import unquote
from uuid import uuid4

import httpx
from botocore.exceptions import BotoCoreError, ClientError

from millpond.devstack.errors import NotReadyError
from millpond.devstack.ports import LOOPBACK
from millpond.devstack.store import PROBE_SECONDS, Credentials, ObjectStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from millpond.deadline import Deadline

_POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
# Before authentication is on, any key pair does.
_ANYONE = Credentials("anyone", "anyone")
# werkzeug colours lines by status; 401 and 403 are requests that did not pass authentication.
_COLOUR = re.compile(r"\x1b\[\d+m")
_PUT_LINE = re.compile(r'"PUT /([^/ ?]+)/([^"?]+) HTTP/1\.\d" (?!401|403)\d{3} ')


class MotoStore(ObjectStore):
    """A store in memory that checks the signatures of one IAM user's key. It is slow: 150 PUT/s at best."""

    keeps_data = False

    def __init__(self, *, bucket: str, folder: Path, logs: Path) -> None:
        super().__init__("moto", bucket=bucket, folder=folder, logs=logs)
        self._credentials: Credentials | None = None

    @property
    def credentials(self) -> Credentials:
        """The key pair that moto made up when it started."""
        if self._credentials is None:
            raise self.failure("has no credentials before its first start: call start()")
        return self._credentials

    @property
    def is_addressable(self) -> bool:
        """Only when it is almost ready: it makes up its keys itself."""
        return self._credentials is not None

    def choose_ports(self) -> None:
        """Another port means another process, which has not made credentials yet."""
        super().choose_ports()
        self._credentials = None

    def command(self) -> Sequence[str]:
        """The server program moto brings, in this interpreter."""
        return [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(self._port)]

    def probe(self, deadline: Deadline) -> None:
        """Switch authentication on first; then as every store."""
        if self._credentials is None:
            self.check_listening()
            self._credentials = self._secure()
        super().probe(deadline)

    def logged_put(self, line: str) -> tuple[str, str] | None:
        """A line of the access log about a PUT on an object, without a query."""
        found = _PUT_LINE.search(_COLOUR.sub("", line))
        return (found[1], unquote(found[2])) if found else None

    def _secure(self) -> Credentials:
        # Another user each time: an attempt that got half-way must not spoil the next one.
        user = f"millpond-{uuid4()}"
        try:
            with closing(self.client(_ANYONE, service="iam", read_seconds=PROBE_SECONDS)) as iam:
                iam.create_user(UserName=user)
                pair = iam.create_access_key(UserName=user)["AccessKey"]
                iam.put_user_policy(UserName=user, PolicyName="s3", PolicyDocument=json.dumps(_POLICY))
            # Zero more requests are served without a valid signature.
            url = f"{self.endpoint}/moto-api/reset-auth"
            httpx.post(url, content=b"0", timeout=PROBE_SECONDS, trust_env=False).raise_for_status()
        except (BotoCoreError, ClientError, httpx.HTTPError) as error:
            raise NotReadyError(f"authentication could not be switched on: {error}") from error
        return Credentials(pair["AccessKeyId"], pair["SecretAccessKey"])
