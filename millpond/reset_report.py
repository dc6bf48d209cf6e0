"""What is told of positions that no committed offset gave, and what is counted of them."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.errors import Fatal
from millpond.logs import logger
from millpond.metrics import Metrics
from millpond.reset_policy import Reset, StartRules

_ACCEPT_LOSS = (
    "Nothing was committed. To go on without them, set KAFKA_ON_DATA_LOSS=continue for one start; else look "
    "why the log is shorter than the group's offsets (retention, a topic made again, the wrong cluster)"
)
_NAMED_LOSSES = 10
_DECIDED_BY = {
    "start_at": "KAFKA_START_AT",
    "new_partition": "the topic's growth: it begins at its beginning",
}


def report(
    resets: Sequence[Reset], topic: str, rules: StartRules, metrics: Metrics, *, is_first_start: bool
) -> None:
    """One line and one count for each."""
    for reset in resets:
        metrics.offset_reset.inc(reason=reset.reason)
        is_news = reset.lost or not is_first_start
        tell = logger().warning if is_news else logger().info
        tell(
            f"position decided by {_DECIDED_BY.get(reset.reason, 'the reset policy')}",
            topic=topic,
            partition=reset.partition,
            reason=reset.reason,
            policy=rules.policy,
            from_offset=reset.from_offset,
            to_offset=reset.to_offset,
            lost=reset.lost,
        )


def stop_on_loss(resets: Sequence[Reset], rules: StartRules, *, is_first_start: bool) -> None:
    """Let nobody pass over records that were there for us and will not be read.

    A first start loses nothing by choice.

    Raises:
        Fatal: there are such records, and KAFKA_ON_DATA_LOSS=fail.
    """
    losses = [
        reset for reset in resets if reset.from_offset is not None or (reset.lost > 0 and not is_first_start)
    ]
    if losses and rules.stops_on_loss:
        raise Fatal(f"KAFKA_ON_DATA_LOSS=fail, and records are lost: {_name(losses)}. {_ACCEPT_LOSS}")


def _name(losses: Sequence[Reset]) -> str:
    named = [
        f"partition {loss.partition} from {loss.from_offset} to {loss.to_offset} "
        f"({loss.reason}, {loss.lost} lost)"
        for loss in losses[:_NAMED_LOSSES]
    ]
    more = len(losses) - len(named)
    return "; ".join(named) + (f"; and {more} partitions more" if more else "")
