"""SASL/OAUTHBEARER tokens for Amazon MSK, signed with the pod's role (extra `msk-iam`)."""

from __future__ import annotations

import os
from collections.abc import Callable

from millpond.config import Config
from millpond.environment import uses_oauth
from millpond.errors import ConfigError
from millpond.logs import logger
from millpond.metrics import Metrics

SESSION_NAME = "millpond"
"""Keeps the principal the same across token renewals, so that ACLs can name it (behaviour 1.1)."""


def token_source(config: Config, metrics: Metrics) -> Callable[[str], tuple[str, float]] | None:
    """The token callback for librdkafka, None when the configuration asks for no OAUTHBEARER.

    Raises:
        ConfigError: the extra is not installed.
    """
    if not uses_oauth(config.consumer_overrides):
        return None
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        problem = "KAFKA_CONSUMER_SASL_MECHANISMS='OAUTHBEARER': needs the extra; install millpond[msk-iam]"
        raise ConfigError([problem]) from error
    os.environ.setdefault("AWS_ROLE_SESSION_NAME", SESSION_NAME)
    region = config.kafka.token_region

    def token(_principal: str) -> tuple[str, float]:
        try:
            text, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
        except Exception as error:
            metrics.errors.inc(type="kafka_token")
            logger().error(
                "no MSK IAM token: give the pod a role, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                region=region,
                error=repr(error),
            )
            raise
        return text, expires_ms / 1000

    return token
