"""The loop: consume, decode, buffer, flush. Nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import KafkaError, Message

from millpond.buffer import Buffer
from millpond.config import Config
from millpond.consumer import TopicConsumer
from millpond.deadline import Deadline
from millpond.errors import Exhausted, Fatal
from millpond.flush import InFlight, Publisher
from millpond.health import Health
from millpond.intake import Intake
from millpond.logs import logger
from millpond.lost_share import check_lost_share
from millpond.metrics import Metrics
from millpond.offsets import Offset, Partition, Positions
from millpond.selection import Selection

_LONGEST_WAIT_SECONDS = 1.0
_WAIT_IN_FLIGHT_SECONDS = 0.1
_HEARTBEAT_SECONDS = 60.0
_LAG_SECONDS = 5.0
RENEWAL_SECONDS = 30.0
"""How long offsets may stand still before they are committed again; brokers forget them after days."""

_SMALLEST_BATCH = 10


class Loop:
    """Drains the owned partitions until it is asked to stop or something is fatal."""

    def __init__(
        self,
        config: Config,
        consumer: TopicConsumer,
        publisher: Publisher,
        positions: Positions,
        *,
        stop: threading.Event,
        metrics: Metrics,
        health: Health,
        partition_count: int,
        selection: Selection | None = None,
        stops_at: Positions | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._consumer = consumer
        self._publisher = publisher
        self._buffer = Buffer(positions, config.flush, clock=clock)
        self._flushed = dict(positions)
        self._in_flight: InFlight | None = None
        self._stop = stop
        self._metrics = metrics
        self._health = health
        self._partition_count = partition_count
        self._intake = Intake(config, metrics, selection or Selection(config, metrics))
        self._intake.expect(publisher.columns())
        self._stops_at = stops_at
        self._clock = clock
        self._next_renewal = clock() + RENEWAL_SECONDS
        self._next_heartbeat = clock() + _HEARTBEAT_SECONDS
        self._next_lag = clock()
        self._next_topic_look = clock() + config.topic_look_seconds
        self._log = logger()
        self.topic_changed = False

    @property
    def is_flushing(self) -> bool:
        """Whether a flush is in flight, or was left behind there."""
        return self._in_flight is not None

    def run(self) -> None:
        """Until `stop` is set, the topic has other partitions, or a given end is reached: read and flush.

        Then flush what is left and return. `topic_changed` tells that a new loop has to go on.

        Raises:
            MillpondError: what ends the process; nothing is flushed after it.
        """
        while not (self._stop.is_set() or self.topic_changed or self._is_at_end()):
            self.turn()
        self._finish()

    def _is_at_end(self) -> bool:
        stops_at, positions = self._stops_at, self._buffer.positions
        return stops_at is not None and all(positions[p] >= end for p, end in stops_at.items())

    def turn(self) -> None:
        """One iteration."""
        self._reap()
        self._health.polled()
        if self._in_flight is not None and self._buffer.is_full():
            # Both buffers are full: reading on would only grow memory.
            self._in_flight.wait(_LONGEST_WAIT_SECONDS)
            self._sample()
            return
        size = self._batch_size()
        self._metrics.consume_batch_size.set(size)
        self.take_in(self._consumer.consume(size, self._patience()))
        trigger = self._buffer.due()
        if self._in_flight is None:
            if trigger is not None:
                self._launch(trigger, Deadline(self._config.flush.deadline_seconds))
            elif self._clock() >= self._next_renewal:
                self._renew()
        self._look_at_topic()
        self._sample()

    def _look_at_topic(self) -> None:
        """See whether partitions were added: an assigned consumer is never told (librdkafka 461)."""
        if self._clock() < self._next_topic_look:
            return
        self._next_topic_look = self._clock() + self._config.topic_look_seconds
        count = self._consumer.partition_count()
        if count is not None and count != self._partition_count:
            self._log.warning(
                "the topic has other partitions than at the start; sharing them out anew",
                partitions_then=self._partition_count,
                partitions_now=count,
            )
            self.topic_changed = True

    def take_in(self, messages: Sequence[Message]) -> None:
        """Decode the messages of one consume call and buffer the rows, then the positions after them.

        Raises:
            Fatal: a position is outside the log; a restart decides it by the reset policy.
        """
        valued: list[Message] = []
        end: dict[Partition, Offset] = {}
        consumed: dict[Partition, int] = {}
        for message in messages:
            error = message.error()
            if error is not None:
                self._note_error(error, message, end)
                continue
            # Both are None only on events that carry an error, which went the other way.
            partition, offset = Partition(message.partition() or 0), message.offset() or 0
            expected = end.get(partition, self._buffer.positions[partition])
            if offset < expected:
                continue  # fetched before the position was set; it is published or buffered already
            if offset > expected:
                self._metrics.offset_gap.inc(offset - expected, partition=str(partition))
            end[partition] = Offset(offset + 1)
            consumed[partition] = consumed.get(partition, 0) + 1
            if message.value() is not None:
                valued.append(message)
        self._buffer_rows(valued, end)
        for partition, count in consumed.items():
            self._metrics.records_consumed.inc(count, partition=str(partition))
        self._metrics.pending_bytes.set(self._buffer.bytes)
        self._metrics.buffer_fullness.set(round(self._buffer.bytes / self._config.flush.size_bytes, 3))

    def _buffer_rows(self, valued: Sequence[Message], end: Mapping[Partition, Offset]) -> None:
        started = time.perf_counter()
        chunk = self._intake.take(valued)
        if valued:
            self._metrics.conversion_seconds.observe(time.perf_counter() - started)
        self._buffer.add(chunk, end)

    def _note_error(self, error: KafkaError, message: Message, end: dict[Partition, Offset]) -> None:
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public name for it
            # Everything before it was read; what is missing there (transaction markers) is no record.
            partition = Partition(message.partition() or 0)
            end[partition] = max(Offset(message.offset() or 0), end.get(partition, Offset(0)))
            return
        self._metrics.errors.inc(type="kafka")
        if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - the client's public name for it
            raise Fatal(
                f"the position of partition {message.partition()} of {message.topic()} is outside the log "
                f"({error.str()}); the restart decides it by KAFKA_AUTO_OFFSET_RESET and counts what is lost"
            )
        self._log.warning(
            "broker error", topic=message.topic(), partition=message.partition(), error=error.str()
        )

    def _batch_size(self) -> int:
        """Fewer messages as the buffer fills, so that it overshoots by little (behaviour 3.2)."""
        fullness = self._buffer.bytes / self._config.flush.size_bytes
        return max(_SMALLEST_BATCH, int(self._config.kafka.consume_batch_size * (1 - fullness)))

    def _patience(self) -> float:
        if self._in_flight is not None:
            return _WAIT_IN_FLIGHT_SECONDS
        return min(max(self._buffer.seconds_until_due(), 0.0), _LONGEST_WAIT_SECONDS)

    def _launch(self, trigger: str, deadline: Deadline) -> None:
        self._intake.tell()
        # Nothing of it is published then, and no offset committed.
        most = self._config.records.quarantine_max_fraction
        check_lost_share(self._config.kafka.topic, self._buffer.records, self._buffer.lost, most)
        flush = self._buffer.take(trigger)
        if flush is not None:
            self._in_flight = InFlight(self._publisher, flush, deadline)

    def _renew(self) -> None:
        """Commit the offsets as they are: a group nobody commits to loses them (librdkafka 1442).

        It also shows an idle process that another one has taken over.
        """
        self._next_renewal = self._clock() + RENEWAL_SECONDS
        self._in_flight = InFlight(self._publisher, self._buffer.standstill(), Deadline(RENEWAL_SECONDS))

    def _reap(self) -> None:
        """Take the result of a flush that is done.

        Raises:
            MillpondError: the flush failed for good.
        """
        if self._in_flight is None or not self._in_flight.done():
            return
        in_flight, self._in_flight = self._in_flight, None
        flush, seconds = in_flight.flush, in_flight.seconds
        try:
            receipt = in_flight.result()
        except Exhausted as error:
            if flush.ranges:
                raise
            # Nothing hangs on it: the next flush commits them too, and so does the next renewal.
            self._metrics.errors.inc(type="offset_renewal")
            self._log.warning("offsets that did not move could not be committed again", error=str(error))
            return
        self._next_renewal = self._clock() + RENEWAL_SECONDS
        self._intake.expect(self._publisher.columns())
        self._flushed = dict(flush.end)
        self._health.flushed()
        self._next_lag = self._clock()
        if flush.is_empty:
            return
        self._metrics.records_written.inc(receipt.rows)
        self._metrics.batches_flushed.inc(trigger=flush.trigger)
        self._metrics.flush_seconds.observe(seconds)
        self._metrics.flush_bytes.observe(flush.arrow_bytes)
        self._metrics.flush_records.observe(flush.rows)
        self._log.info(
            "flushed",
            rows=receipt.rows,
            quarantined=receipt.quarantined,
            files=receipt.files,
            snapshot=receipt.snapshot,
            trigger=flush.trigger,
            arrow_bytes=flush.arrow_bytes,
            seconds=round(seconds, 3),
        )

    def _finish(self) -> None:
        """The orderly end: the flush in flight, then one for what is left, all within the grace period.

        At the end of the log nobody waits for us, and it may take as long as any flush.
        """
        flush = self._config.flush
        grace = Deadline(flush.grace_seconds if self._stop.is_set() else flush.deadline_seconds)
        self._log.info("stopping", pending_rows=self._buffer.rows, in_flight=self._in_flight is not None)
        self._settle(grace)
        self._launch("final", grace)
        self._settle(grace)

    def _settle(self, grace: Deadline) -> None:
        if self._in_flight is None:
            return
        self._in_flight.deadline.shorten(grace.remaining())
        while not self._in_flight.wait(_LONGEST_WAIT_SECONDS):
            self._health.polled()
            if grace.seconds_past() > _LONGEST_WAIT_SECONDS:
                raise Exhausted(
                    "the grace period ended before the last flush did; its offsets are not committed, the "
                    "next start goes on from there. Raise MILLPOND_GRACE_PERIOD_S and the pod's "
                    "terminationGracePeriodSeconds, or lower FLUSH_SIZE"
                )
        self._reap()

    def _sample(self) -> None:
        now = self._clock()
        if now >= self._next_lag:
            self._next_lag = now + _LAG_SECONDS
            for partition, position in self._flushed.items():
                end = self._consumer.known_end(partition)
                if end is not None:
                    self._metrics.lag.set(max(0, end - position), partition=str(partition))
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + _HEARTBEAT_SECONDS
            self._log.info(
                "heartbeat",
                pending_rows=self._buffer.rows,
                pending_bytes=self._buffer.bytes,
                in_flight=self._in_flight is not None,
            )
