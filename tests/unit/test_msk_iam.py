"""Tokens for Amazon MSK, signed offline with made-up credentials."""

import base64
import os
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from structlog.testing import capture_logs

from millpond.errors import ConfigError
from millpond.msk_iam import token_source
from tests.unit.fakes import metrics, value
from tests.unit.test_config import loaded

ASKED = loaded(KAFKA_CONSUMER_SASL_MECHANISMS="OAUTHBEARER", AWS_REGION="eu-west-1")


@pytest.fixture(autouse=True)
def _no_ambient_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ROLE_SESSION_NAME", "restored afterwards")
    monkeypatch.delenv("AWS_ROLE_SESSION_NAME")


@pytest.fixture
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAMADEUP")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", ""])
def test_other_mechanisms_need_no_token(mechanism: str) -> None:
    assert token_source(loaded(KAFKA_CONSUMER_SASL_MECHANISMS=mechanism), metrics()) is None


@pytest.mark.usefixtures("_credentials")
def test_a_token_is_a_signed_request_to_connect_in_the_region() -> None:
    token = token_source(ASKED, metrics())
    assert token is not None
    text, _ = token("")
    signed = urlsplit(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
    query = parse_qs(signed.query)
    assert ["kafka-cluster:Connect"] == query["Action"]
    assert signed.hostname == "kafka.eu-west-1.amazonaws.com"
    assert query["X-Amz-Credential"][0].startswith("AKIAMADEUP/")
    assert "made-up" not in signed.geturl()


@pytest.mark.usefixtures("_credentials")
def test_a_token_expires_in_seconds_since_the_epoch() -> None:
    """H02: librdkafka renews by this time; milliseconds would put it far into the future."""
    token = token_source(ASKED, metrics())
    assert token is not None
    assert 60 < token("")[1] - time.time() < 3600


@pytest.mark.parametrize(("given", "expected"), [(None, "millpond"), ("mine", "mine")])
def test_the_session_keeps_its_name_over_renewals(
    monkeypatch: pytest.MonkeyPatch, given: str | None, expected: str
) -> None:
    if given is not None:
        monkeypatch.setenv("AWS_ROLE_SESSION_NAME", given)
    token_source(ASKED, metrics())
    assert expected == os.environ["AWS_ROLE_SESSION_NAME"]


def test_a_token_that_cannot_be_signed_is_counted_and_raised() -> None:
    series = metrics()
    token = token_source(ASKED, series)
    assert token is not None
    with capture_logs() as events, pytest.raises(AttributeError):  # the signer's own word for no credentials
        token("")
    assert value(series, "millpond_errors_total", type="kafka_token") == 1
    (event,) = events
    assert (event["log_level"], event["region"]) == ("error", "eu-west-1")
    assert "no MSK IAM token: give the pod a role" in event["event"]


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(ConfigError, match=r"install millpond\[msk-iam\]"):
        token_source(ASKED, metrics())
