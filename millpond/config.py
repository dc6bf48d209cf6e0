"""The configuration of one process, read from the environment once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from millpond import environment
from millpond.budget import worst_case_flush_seconds
from millpond.errors import ConfigError
from millpond.filter_settings import FilterSettings, misfits
from millpond.record_settings import RecordSettings
from millpond.records.quarantine import TABLE_SUFFIX
from millpond.settings import (
    FlushSettings,
    HoglakeSettings,
    KafkaSettings,
    Section,
    ServiceSettings,
)

TOPIC_LOOK_SECONDS = 60.0

LONGEST_TABLE_NAME = 128
"""Characters, for every table of a catalog."""


@dataclass(frozen=True)
class Config:
    """Everything the service was told, validated."""

    kafka: KafkaSettings
    flush: FlushSettings
    service: ServiceSettings
    records: RecordSettings
    filters: FilterSettings
    hoglake: HoglakeSettings
    consumer_overrides: Mapping[str, str] = field(repr=False)  # passwords among them
    warnings: tuple[str, ...] = ()

    @property
    def group_id(self) -> str:
        """The Kafka group that stores the offsets; the destination is in it so that a shadow shares none."""
        derived = f"millpond-{self.service.destination}-{self.kafka.topic}-{self.hoglake.table}"
        return self.kafka.group_id or derived

    @property
    def topic_look_seconds(self) -> float:
        """How often the topic is looked at for new partitions: librdkafka's own interval, where set."""
        text = self.consumer_overrides.get("topic.metadata.refresh.interval.ms", "")
        return int(text) / 1000 if text.isdecimal() else TOPIC_LOOK_SECONDS

    @property
    def pipeline(self) -> str:
        """Label of every metric."""
        return f"{self.kafka.topic}-{self.hoglake.table}"


SECTIONS: dict[str, type[Section]] = {
    "kafka": KafkaSettings,
    "flush": FlushSettings,
    "service": ServiceSettings,
    "records": RecordSettings,
    "filters": FilterSettings,
    "hoglake": HoglakeSettings,
}


def load(environ: Mapping[str, str]) -> Config:
    """The configuration in `environ`. A blank variable counts as unset.

    Raises:
        ConfigError: every problem found, each naming the variable, its value and the rule.
    """
    present = {name: text.strip() for name, text in environ.items() if text.strip()}
    problems = environment.refused_variables(present)
    sections: dict[str, Any] = {}
    for name, section in SECTIONS.items():
        try:
            sections[name] = section.read(present)
        except ValidationError as error:
            problems += environment.describe(error, present)
    problems += _fit(sections)
    problems += _unnamable_quarantine(sections)
    if "filters" in sections and "records" in sections:
        problems += misfits(sections["filters"], sections["records"])
    overrides, refusals = environment.consumer_overrides(present, sections.get("kafka"))
    problems += refusals
    if problems:
        raise ConfigError(problems)
    known = {str(entry.alias) for section in SECTIONS.values() for entry in section.model_fields.values()}
    return Config(
        **sections,
        consumer_overrides=overrides,
        warnings=(*sections["filters"].warnings, *environment.unknown_variables(present, known)),
    )


def _fit(sections: Mapping[str, Any]) -> list[str]:
    """The configured attempts must fit the deadline of a flush."""
    hoglake, flush = sections.get("hoglake"), sections.get("flush")
    if hoglake is None or flush is None:
        return []
    seconds = worst_case_flush_seconds(hoglake.attempts, hoglake.request_timeout)
    if seconds <= flush.deadline_seconds:
        return []
    problem = (
        f"HOGLAKE_MAX_RETRY_COUNT={hoglake.attempts}, HOGLAKE_REQUEST_TIMEOUT_S={hoglake.request_timeout:g}: "
        f"a flush could take {seconds:.2f} s, more than FLUSH_DEADLINE_S={flush.deadline_seconds:g}; "
        "lower the attempts or the timeout"
    )
    return [problem]


def _unnamable_quarantine(sections: Mapping[str, Any]) -> list[str]:
    """The quarantine needs a name that a table may have: the first odd record is too late to find out."""
    hoglake, records = sections.get("hoglake"), sections.get("records")
    if hoglake is None or records is None or records.quarantine == "skip":
        return []
    longest = LONGEST_TABLE_NAME - len(TABLE_SUFFIX)
    if len(hoglake.table) <= longest:
        return []
    problem = (
        f"HOGLAKE_TABLE={hoglake.table}: {len(hoglake.table)} characters, and with {TABLE_SUFFIX!r} after "
        f"them more than the {LONGEST_TABLE_NAME} of a table name; shorten it to {longest}, or set "
        "MILLPOND_QUARANTINE=skip"
    )
    return [problem]
