"""Writers in processes of their own, forked from one warm parent, so that they really begin at once.

Run as a module with a race as JSON; the environment says where. Prints one JSON object for each writer.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from dataclasses import asdict, dataclass, replace
from threading import BrokenBarrierError
from typing import Any

import pyarrow as pa

from millpond import logs
from millpond.config import Config, load
from millpond.deadline import Deadline, SideCalls
from millpond.errors import MillpondError
from millpond.flush import Publisher
from millpond.hoglake import HoglakeSink, connect
from millpond.metrics import Metrics
from millpond.offset_metadata import CommitMetadata
from millpond.sink import Flush
from millpond.start_step import until_through
from tests.integration.sink.writing import LAYOUT, SOURCE, flush_of
from tests.unit.fakes import FakeLog

ROWS = 10
_FAR = 1_000_000
_RESULT_SECONDS = 170.0
_START_SECONDS = 120.0  # not the service's own: here dozens begin on the cores of one machine


@dataclass(frozen=True)
class Race:
    """How many writers; for how long each publishes one flush after another, or once when that is 0.

    With `late`, the writer of that number brings this value in a column of its own from its second flush
    on, before which all wait for each other.
    """

    writers: int
    seconds: float = 0.0
    late: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Result:
    """What became of one writer: flushes published, failed tries by type, or what ended it."""

    writer: int
    flushes: int
    errors: dict[str, float]
    numbers: list[int]
    failure: str = ""


class Writer:
    """One of them: partition and rows of its own, as replicas have."""

    def __init__(self, number: int, race: Race, gate: Any) -> None:
        self._number = number
        self._race = race
        self._gate = gate
        self._metrics = Metrics(f"writer-{number}", "local")
        self._numbers: list[int] = []

    def run(self) -> Result:
        """Start with the others, publish, tell."""
        failure = ""
        self._gate.wait()
        try:
            self._publish()
        except (MillpondError, BrokenBarrierError) as error:
            failure = f"{type(error).__name__}: {error}"
            self._gate.abort()
        flushes = len(self._numbers) // ROWS
        return Result(self._number, flushes, self._errors(), self._numbers, failure)

    def _publish(self) -> None:
        config = load(os.environ)
        sink = self._open(config)
        first = self._number * _FAR
        log = FakeLog({self._number: first}, metadata=CommitMetadata(0, str(LAYOUT), SOURCE.topic_id))
        source = replace(SOURCE, replay_epoch=config.flush.replay_epoch)
        publisher = Publisher(sink, log, source, LAYOUT, attempts=8, snapshot=0, metrics=self._metrics)
        self._flush(publisher, first)
        if self._race.late:
            self._gate.wait()
            self._flush(publisher, first + ROWS, late=self._race.late[self._number])
            self._flush(publisher, first + 2 * ROWS, late=self._race.late[self._number])
        if self._race.seconds:
            self._gate.wait()
        until = time.monotonic() + self._race.seconds
        while time.monotonic() < until:
            self._flush(publisher, first + len(self._numbers))
        sink.close()

    def _open(self, config: Config) -> HoglakeSink:
        deadline = Deadline(_START_SECONDS)
        return until_through(
            lambda: HoglakeSink.open(
                connect(config.hoglake),
                config.hoglake,
                config.records.sort_by,
                self._metrics,
                SideCalls(),
                ordinal=self._number,
                version="test",
                deadline=deadline,
            ),
            deadline,
        )

    def _flush(self, publisher: Publisher, first: int, *, late: Any = None) -> None:
        numbers = range(first, first + ROWS)
        flush = flush_of(numbers, partition=self._number)
        publisher.publish(flush if late is None else with_late(flush, late), Deadline(120))
        self._numbers.extend(numbers)

    def _errors(self) -> dict[str, float]:
        return {
            sample.labels["type"]: sample.value
            for metric in self._metrics.registry.collect()
            for sample in metric.samples
            if sample.name == "millpond_errors_total"
        }


def with_late(flush: Flush, value: Any) -> Flush:
    """The same rows with a column more."""
    (batch,) = flush.batches
    column = pa.array([value] * batch.num_rows)
    return replace(flush, batches=[batch.append_column("late", column)])


def main() -> None:
    race = Race(**json.loads(sys.argv[1]))
    logs.configure("ERROR", "json")
    context = multiprocessing.get_context("fork")
    gate, results = context.Barrier(race.writers), context.Queue()

    def run(number: int) -> None:
        results.put(asdict(Writer(number, race, gate).run()))

    processes = [context.Process(target=run, args=(number,)) for number in range(race.writers)]
    for process in processes:
        process.start()
    for _ in processes:
        sys.stdout.write(json.dumps(results.get(timeout=_RESULT_SECONDS)) + "\n")
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
