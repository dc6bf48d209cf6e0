"""The connection to the object store: few tries, short waits, one endpoint."""

import pytest

from millpond.hoglake.store import BoundedStore


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
