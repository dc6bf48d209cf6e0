"""The log and a group's offsets as the broker tells them; records are read, nothing is committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message

from millpond.config import Config
from millpond.consumer import Topic, TopicConsumer
from millpond.deadline import Deadline, SideCalls
from millpond.errors import DeadlineExceeded
from millpond.intake import decoder_for
from millpond.metrics import Metrics
from millpond.msk_iam import token_source
from millpond.offset_metadata import Committed
from millpond.offsets import Offset, Partition, PartitionRange
from millpond.records import Columns, decode_messages
from millpond.reset_policy import Watermarks
from millpond.selection import Selection

READ_RECORDS = 1_000_000
"""How many records are read at most to find out what a gap held."""

_BATCH = 5_000
_WAIT_SECONDS = 1.0
_CLOSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What the log holds of a range: `rows` of its records would have made a row.

    `unfit` of them would have made none, and be in quarantine today. `is_whole` is False where part of the
    range is gone from the log, or was not read for want of time.
    """

    rows: int
    is_whole: bool
    unfit: int = 0


GapKey = tuple[str, Partition, PartitionRange]
"""A group's gap in a partition."""


class GroupLog:
    """The whole topic with the offsets of one group, read for a table with these columns. To be closed."""

    def __init__(self, config: Config, columns: Columns, side_calls: SideCalls) -> None:
        metrics = Metrics(config.pipeline, "")  # nobody scrapes them
        self._kafka_columns = config.records.kafka_columns
        self._decoder = decoder_for(config.records)
        self._decoder.expect(columns.types, columns.required)
        self._quarantines = config.records.quarantine == "table"
        # Which values an endpoint gave at the time nobody knows: then no record counts as filtered.
        is_known = config.filters.mode != "authoritative"
        self._selection = Selection(config, metrics) if is_known else None
        self._consumer = TopicConsumer(config, metrics, side_calls, token=token_source(config, metrics))
        self._unread = READ_RECORDS

    def connect(self, deadline: Deadline) -> Topic:
        """What the cluster says of the topic; every partition is ours to look at.

        Raises:
            MillpondError: no broker answers, or there is no such topic.
        """
        return self._consumer.connect(deadline)

    def committed(self, deadline: Deadline) -> Mapping[Partition, Committed]:
        """What the group's coordinator holds."""
        return self._consumer.committed(deadline)

    def watermarks(self, deadline: Deadline) -> Mapping[Partition, Watermarks]:
        """Both ends of each partition's log."""
        return self._consumer.watermarks(deadline)

    def read(
        self, partition: Partition, wanted: PartitionRange, marks: Watermarks, deadline: Deadline
    ) -> Reading:
        """Look at the records of a range, as far as the log has them and READ_RECORDS and time allow."""
        start, end = max(wanted.first, marks.low), min(wanted.next, marks.high)
        rows, unfit, is_whole = 0, 0, wanted.first >= marks.low
        if start < end:
            self._consumer.assign({partition: start})
        while start < end:
            if self._unread <= 0 or deadline.remaining() <= 0:
                return Reading(rows, is_whole=False, unfit=unfit)
            messages = self._consumer.consume(_BATCH, deadline.cut(_WAIT_SECONDS))
            valued: list[Message] = []
            for message in messages:
                error, offset = message.error(), Offset(message.offset() or 0)
                if error is None:
                    if start <= offset < end and message.value() is not None:
                        valued.append(message)
                    start = max(start, Offset(offset + 1))
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public name for it
                    start = end
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - as above
                    return Reading(rows, is_whole=False, unfit=unfit)  # the log was cut while we read
            self._unread -= len(messages)
            of_these, aside = self._made_of(valued)
            rows, unfit = rows + of_these, unfit + aside
        return Reading(rows, is_whole, unfit)

    def _made_of(self, valued: Sequence[Message]) -> tuple[int, int]:
        """How many rows the service would make of these, and how many go to quarantine only."""
        decoded = decode_messages(self._decoder, valued, kafka_columns=self._kafka_columns)
        batch = decoded.batch if self._selection is None else self._selection.apply(decoded.batch)
        return int(batch.num_rows), len(decoded.skipped) if self._quarantines else 0

    def close(self) -> None:
        """Leave the cluster. A broker that is silent then takes nothing from the report."""
        with suppress(DeadlineExceeded):  # counted as abandoned by the side calls
            self._consumer.close(Deadline(_CLOSE_SECONDS))
