"""What is wrong or odd about an environment: refused, unknown and passed-through variables."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from pydantic import ValidationError

if TYPE_CHECKING:
    from millpond.settings import KafkaSettings

CONSUMER_PREFIX = "KAFKA_CONSUMER_"

OWNED_PROPERTIES: Mapping[str, str] = {
    "auto.offset.reset": "set KAFKA_AUTO_OFFSET_RESET instead",
    "enable.auto.commit": "offsets are committed only after a flush is published",
    "enable.auto.offset.store": "offsets are committed only after a flush is published",
    "fetch.min.bytes": "set FETCH_MIN_BYTES instead",
    "fetch.wait.max.ms": "set FETCH_MAX_WAIT_MS instead",
    "group.id": "set GROUP_ID instead",
    "group.instance.id": "partitions are assigned by ordinal; with it the broker refuses every offset commit",
    "group.protocol": "partitions are assigned by ordinal, not by the group",
    "max.poll.interval.ms": "there is no group membership to lose",
    "partition.assignment.strategy": "partitions are assigned by ordinal, not by the group",
    "statistics.interval.ms": "set STATS_INTERVAL_MS instead",
}
"""librdkafka properties that are ours to set, and what to do about each."""

OWN_PREFIXES = ("MILLPOND_", "HOGLAKE_", "KAFKA_", "FLUSH_", "FETCH_")
"""What the names of most of our variables begin with."""

_SECRET = re.compile(r"SECRET|PASSWORD|TOKEN|_KEY$")
_USER_IN_URL = re.compile(r"//[^/@\s]*@")
# Kubernetes announces each Service of the namespace this way; they are nobody's misspelling.
_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_\d+_(TCP|UDP)(_\w+)?)?$")

_REFUSED = {
    "MILLPOND_VARIANT_COLUMNS": "hoglake tables get no VARIANT columns; values land as JSON text; unset it",
}
_FOR_LOG_EXPORT = frozenset(
    {
        "POSTHOG_PROJECT_TOKEN",
        "POSTHOG_LOGS_ENDPOINT",
        "MILLPOND_SERVICE_NAMESPACE",
        "MILLPOND_SERVICE_INSTANCE_ID",
    }
)


def describe(error: ValidationError, environ: Mapping[str, str]) -> list[str]:
    """One line per problem: the variable, its value and the rule it breaks."""
    lines = []
    for problem in error.errors():
        rule = str(problem["msg"]).removeprefix("Value error, ")
        variable = str(problem["loc"][0]) if problem["loc"] else ""
        if not variable:
            lines.append(rule)  # a rule over several variables names them itself
        elif problem["type"] == "missing":
            lines.append(f"{variable}: required, but not set")
        else:
            lines.append(f"{variable}={shown(variable, environ.get(variable, ''))}: {rule}")
    return lines


def shown(variable: str, value: str) -> str:
    """A value as it may be printed: secrets are not, nor who signs in by a URL."""
    return "(secret)" if _SECRET.search(variable) else repr(_USER_IN_URL.sub("//(secret)@", value))


def refused_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables whose meaning this version cannot honour, so that running on would surprise."""
    problems = [
        f"{name}={shown(name, environ[name])}: {reason}"
        for name in sorted(environ)
        for prefix, reason in _REFUSED.items()
        if name.startswith(prefix)
    ]
    if "DUCKLAKE_PARTITION_BY" in environ and "HOGLAKE_PARTITION_BY" not in environ:
        problems.append(
            f"DUCKLAKE_PARTITION_BY={environ['DUCKLAKE_PARTITION_BY']!r}: set HOGLAKE_PARTITION_BY instead; "
            "without it the hoglake table would be created unpartitioned"
        )
    return problems


def consumer_overrides(
    environ: Mapping[str, str], kafka: KafkaSettings | None
) -> tuple[dict[str, str], list[str]]:
    """The librdkafka properties of KAFKA_CONSUMER_*, and what is wrong with them.

    `KAFKA_CONSUMER_SASL_USERNAME` is `sasl.username`: prefix off, lower case, `_` to `.` (behaviour 1.1).
    """
    overrides, problems = {}, []
    for name in sorted(name for name in environ if name.startswith(CONSUMER_PREFIX)):
        key = name.removeprefix(CONSUMER_PREFIX).lower().replace("_", ".")
        if key in OWNED_PROPERTIES:
            problems.append(
                f"{name}={shown(name, environ[name])}: {key} cannot be set; {OWNED_PROPERTIES[key]}"
            )
        else:
            overrides[key] = environ[name]
    if uses_oauth(overrides) and kafka is not None and kafka.token_region is None:
        problems.append(
            "AWS_REGION: required with SASL OAUTHBEARER (region of the MSK IAM token), but not set"
        )
    return overrides, problems


def uses_oauth(overrides: Mapping[str, str]) -> bool:
    """Whether these properties ask for SASL OAUTHBEARER."""
    mechanism = overrides.get("sasl.mechanisms") or overrides.get("sasl.mechanism", "")
    return mechanism.upper() == "OAUTHBEARER"


def unknown_variables(environ: Mapping[str, str], known: Collection[str]) -> Iterable[str]:
    """A warning for each variable of ours that nothing reads, with the nearest name that is read."""
    for name in sorted(environ):
        if name in _FOR_LOG_EXPORT:
            yield f"{name} has no effect: OTLP log export is not in this version; logs go to standard output"
        elif name in known or name.startswith(CONSUMER_PREFIX) or _SERVICE_LINK.search(name):
            continue
        else:
            # Names without a prefix of ours are anybody's, unless they are all but one of ours.
            is_ours = name.startswith(OWN_PREFIXES)
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5 if is_ours else 0.9)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            if is_ours or nearest:
                yield f"{name} is not a variable of millpond and has no effect{hint}"
