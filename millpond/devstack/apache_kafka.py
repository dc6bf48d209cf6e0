"""Apache Kafka as the stack's broker: a single KRaft node on Java."""
# ruff: noqa: ARG002 - the signatures are the interface's, the refusal needs none of them

from __future__ import annotations

from typing import TYPE_CHECKING

from millpond.devstack.broker import Broker
from millpond.devstack.errors import MissingToolError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from millpond.deadline import Deadline

_REMEDY = "Apache Kafka is not built into the local stack yet: use --kafka mock"


class ApacheKafka(Broker):
    """A broker with everything the mock one lacks; refused until it is built."""

    def __init__(self, *, folder: Path, logs: Path) -> None:
        super().__init__("kafka", folder=folder, logs=logs)

    @property
    def bootstrap_servers(self) -> str:
        """Refused."""
        raise MissingToolError(_REMEDY)

    def choose_ports(self) -> None:
        """Refused."""
        raise MissingToolError(_REMEDY)

    def command(self) -> Sequence[str]:
        """Refused."""
        raise MissingToolError(_REMEDY)

    def probe(self, deadline: Deadline) -> None:
        """Refused."""
        raise MissingToolError(_REMEDY)

    def create_topic(self, topic: str, partitions: int) -> None:
        """Refused."""
        raise MissingToolError(_REMEDY)

    def delete_topic(self, topic: str) -> None:
        """Refused."""
        raise MissingToolError(_REMEDY)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Refused."""
        raise MissingToolError(_REMEDY)

    def go_down(self) -> None:
        """Refused."""
        raise MissingToolError(_REMEDY)

    def come_up(self) -> None:
        """Refused."""
        raise MissingToolError(_REMEDY)
