"""The connection to the object store: few tries, short waits, one endpoint."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.exceptions import ClientError, ConnectionClosedError

from millpond.deadline import Deadline
from millpond.hoglake.store import BoundedStore
from tests.unit.fakes import FakeClock
from tests.unit.lake import MemoryStore
from tests.unit.test_config import problems

TARGET = {"Bucket": "lake", "Key": "data/1.parquet"}
AWS_CONFIG = """
[default]
region = of-the-pod
endpoint_url = http://elsewhere:1
s3 =
  addressing_style = virtual
"""


def test_uploads_wait_for_a_short_time_and_hide_no_tries() -> None:
    """G01, G03: a pool as wide as the fan-out, connect within 3 s, no hidden tries."""
    put = BoundedStore(access_key="a", secret_key="b", region="eu-west-1").put_client(64)
    config = put._s3.meta.config
    put.close()
    assert (64, 1) == (config.max_pool_connections, config.retries["total_max_attempts"])
    assert config.connect_timeout <= 3
    assert config.read_timeout <= 15


def test_uploads_go_to_the_configured_endpoint_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G07: the ambient AWS names do not shadow ours."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://elsewhere:1")
    store = BoundedStore(access_key="a", secret_key="b", region="r", endpoint_override="http://store:9000")
    put = store.put_client(1)
    put.close()
    assert "http://store:9000" == put._s3.meta.endpoint_url


@pytest.fixture
def _configured_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod whose AWS configuration and environment are for something else, read as by a new process."""
    file = tmp_path / "config"
    file.write_text(AWS_CONFIG, encoding="utf-8")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "of-the-pod")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://elsewhere:1")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)


@pytest.mark.usefixtures("_configured_otherwise")
@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("http://store:9000", "http://store:9000/lake/data/1.parquet"),
        (None, "https://lake.s3.eu-west-1.amazonaws.com/data/1.parquet"),
    ],
)
def test_an_object_goes_where_our_settings_say_whatever_those_of_the_pod_are(
    endpoint: str | None, expected: str
) -> None:
    """G07: AWS asks for a host name for each bucket; a store of one's own has none."""
    sent: list[str] = []

    def stop(request: AWSPreparedRequest, **_: object) -> None:
        sent.append(request.url)
        raise ConnectionClosedError(endpoint_url=request.url)

    store = BoundedStore(access_key="a", secret_key="b", region="eu-west-1", endpoint_override=endpoint)
    client = store.connection(1, 1)
    client.meta.events.register("before-send.s3.PutObject", stop)
    with pytest.raises(ConnectionClosedError):
        client.put_object(**TARGET, Body=b"")
    client.close()
    assert [expected] == sent
    assert "eu-west-1" == client.meta.region_name


def test_a_narrow_fan_out_keeps_the_usual_pool() -> None:
    """That of botocore, 10: other calls go over it, too."""
    client = BoundedStore(access_key="a", secret_key="b", region="r").connection(1, 1)
    client.close()
    assert 10 == client.meta.config.max_pool_connections


@contextmanager
def answering(status: int) -> Iterator[tuple[BoundedStore, list[str]]]:
    """An object store that gives this answer to every question, as it is reached, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """A request is no news."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        store = BoundedStore(access_key="a", secret_key="b", region="r", endpoint_override=url)
        yield store, asked
        store.close()
        server.shutdown()
        thread.join(5)


@pytest.mark.parametrize(
    ("status", "expected"), [(200, True), (404, False), (403, None), (500, None), (503, None)]
)
def test_an_object_is_missing_only_where_the_store_says_so(status: int, *, expected: bool | None) -> None:
    """A10: 403 is what a role hears that may neither read nor list, whether the object is there or not."""
    with answering(status) as (store, asked):
        assert expected is store.has(TARGET)
        assert ["/lake/data/1.parquet"] == asked


def test_a_store_that_nobody_reaches_says_nothing() -> None:
    with answering(200) as (store, _):
        pass
    assert store.has(TARGET) is None
    store.close()


@pytest.mark.parametrize("answer", [{}, {"ResponseMetadata": {}}])
def test_an_answer_without_a_status_says_nothing(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    memory = MemoryStore()
    memory.unanswered.append(ClientError(answer, "HeadObject"))
    monkeypatch.setattr(BoundedStore, "connection", lambda _self, _connections, _seconds: memory)
    assert BoundedStore().has(TARGET) is None


def test_a_store_is_asked_up_to_the_deadline_and_not_at_it() -> None:
    clock = FakeClock()
    with answering(404) as (store, asked):
        store.deadline = Deadline(2, clock=clock)
        clock.advance(1.5)
        assert store.has(TARGET) is False
        clock.advance(0.5)
        assert store.has(TARGET) is None
        assert 1 == len(asked)


def test_the_question_whether_an_object_arrived_waits_for_a_short_time() -> None:
    """It comes after an upload, and both within an attempt's allowance."""
    with answering(404) as (store, _):
        store.has(TARGET)
        config = store._asking.meta.config
    assert (3, 3, 1) == (config.connect_timeout, config.read_timeout, config.retries["total_max_attempts"])


def test_keys_for_the_store_and_the_role_of_the_pod_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """G07: the AWS names are those of the role that signs in to Kafka; ours are for the store alone."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-pod")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "its-secret")
    ours = BoundedStore(access_key="of-the-store", secret_key="b", region="r").connection(1, 1)
    chain = BoundedStore(region="r").connection(1, 1)
    used = [client._request_signer._credentials.access_key for client in (ours, chain)]
    ours.close()
    chain.close()
    assert ["of-the-store", "of-the-pod"] == used
    assert "of-the-pod" == os.environ["AWS_ACCESS_KEY_ID"]


def test_no_flush_can_be_configured_that_makes_an_object_too_big_for_one_upload() -> None:
    """G13: a PutObject takes 5 GiB; a buffer, and so any file made of it, stays below 2 GiB."""
    (told,) = problems(FLUSH_SIZE=str(5 * 2**30))
    assert told.startswith("FLUSH_SIZE=")
