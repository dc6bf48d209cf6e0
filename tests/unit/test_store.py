"""The connection to the object store: few tries, short waits, one endpoint."""

import os

import pytest

from millpond.hoglake.store import BoundedStore
from tests.unit.test_config import problems


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
