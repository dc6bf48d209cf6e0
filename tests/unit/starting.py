"""A process that starts, between a fake group and a fake destination."""

from collections.abc import Mapping

from millpond.deadline import Deadline
from millpond.metrics import Metrics
from millpond.offset_metadata import CommitMetadata
from millpond.offsets import ranges_between
from millpond.recovery import Recovered, recover
from millpond.reset_policy import StartRules
from millpond.sink import History, Source
from millpond.start_at import parse_start_at
from tests.unit.fakes import (
    LAYOUT,
    SOURCE,
    FakeClock,
    FakeLog,
    FakeSink,
    SteppedDeadline,
    metrics,
    positions,
    value,
)

OURS = CommitMetadata(100, str(LAYOUT), "id-1")


class Start:
    """A process that starts: its group, its destination and its series."""

    def __init__(self, offsets: Mapping[int, int | None], metadata: CommitMetadata | None = OURS) -> None:
        self.log = FakeLog(offsets, metadata=metadata, ends=(5, 1000))
        self.sink = FakeSink()
        self.metrics: Metrics = metrics()
        self.clock = FakeClock()

    def published(self, start: Mapping[int, int], end: Mapping[int, int], source: Source = SOURCE) -> None:
        """Let an earlier life have published from one vector to the other."""
        ranges = ranges_between(positions(start), positions(end))
        self.sink.add(source, positions(start), ranges)

    def recover(
        self, source: Source = SOURCE, policy: str = "earliest", *, start_at: str = "", on_loss: str = ""
    ) -> Recovered:
        return recover(
            self.log,
            self.sink,
            source,
            layout=LAYOUT,
            rules=StartRules(policy, on_loss == "fail", parse_start_at(start_at) if start_at else None),
            metrics=self.metrics,
            deadline=SteppedDeadline(25, FakeClock()),
            clock=self.clock,
        )

    def followed(self) -> float | None:
        return value(self.metrics, "millpond_recovered_flushes_total")


ELSEWHERE = CommitMetadata(100, "1/0/3", "id-1")


class Slow(FakeSink):
    """A catalog with more snapshots than can be read in time."""

    def published_since(self, source: Source, snapshot: int, deadline: Deadline) -> History:
        deadline.shorten(0)
        deadline.check("reading the snapshots")
        raise AssertionError("not reached")
