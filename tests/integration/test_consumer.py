"""The Kafka half of the service against a real client and broker."""

from __future__ import annotations

import threading
from collections.abc import Callable

from millpond.config import load
from millpond.consumer import TopicConsumer
from millpond.deadline import Deadline, SideCalls
from millpond.devstack.stack import Stack
from millpond.metrics import Metrics
from millpond.offset_metadata import CommitMetadata, Committed
from millpond.offsets import Offset
from tests.pipeline import Pipeline


def test_offsets_are_answered_while_the_loop_reads_without_a_pause(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """confluent-kafka locks a client during consume(): on one client these calls would wait for ever."""
    pipeline = pipelines(stack)
    consumer = TopicConsumer(load(pipeline.environment()), Metrics("p", ""), SideCalls())
    consumer.connect(Deadline(10))
    consumer.assign(dict.fromkeys(consumer.owned, Offset(0)))
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            consumer.consume(1000, 0.1)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        note = CommitMetadata(1, "1/0/2", "")
        for offset in range(1, 11):
            positions = dict.fromkeys(consumer.owned, Offset(offset))
            consumer.commit(positions, note, Deadline(5))
            expected = {partition: Committed(Offset(offset), note) for partition in consumer.owned}
            assert expected == consumer.committed(Deadline(5))
    finally:
        stop.set()
        reader.join()
        consumer.close(Deadline(5))
