"""Which rows go on to the buffer: the filters of one process, and what became of the others."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from millpond.config import Config
from millpond.include_values import AllowList
from millpond.logs import logger
from millpond.metrics import Metrics
from millpond.records import KAFKA_COLUMNS
from millpond.records.filters import VALUE_INVALID, Filtered, drop, keep
from millpond.records.value_list import ValueList

_NAMED_VALUES = 20


class Selection:
    """Keep filter, then drop filter. The values to keep are read out of `allow_list` for each batch."""

    def __init__(self, config: Config, metrics: Metrics, allow_list: AllowList | None = None) -> None:
        settings, records = config.filters, config.records
        self._keep_field = settings.keep_field
        self._allow_list = allow_list or AllowList(settings, metrics)
        self._drop_field = settings.drop_field
        self._drop_values = ValueList(settings.drop_values)
        self._metrics = metrics
        # These keep their type without a value: the operator fixed it, or we fill them.
        self._typed = frozenset(records.typed_columns).union(
            KAFKA_COLUMNS.names if records.kafka_columns else ()
        )
        self._blind: Counter[str] = Counter()
        self._invalid: set[str] = set()

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that are wanted."""
        if self._keep_field is not None and batch.num_rows:
            filtered = keep(batch, self._keep_field, self._allow_list.current, typed=self._typed)
            batch = self._counted("keep", filtered)
        if self._drop_field is not None and batch.num_rows:
            filtered = drop(batch, self._drop_field, self._drop_values, typed=self._typed)
            batch = self._counted("drop", filtered)
        return batch

    def tell(self) -> None:
        """What the filters could not judge since the last call, once each."""
        for name, field, outcome in (
            ("keep", self._keep_field, "left out"),
            ("drop", self._drop_field, "written"),
        ):
            if self._blind[name]:
                logger().warning(
                    f"no record of a batch has a usable value for the {name} filter: all are {outcome}",
                    field=field,
                    records=self._blind[name],
                )
        if self._invalid:
            self._metrics.errors.inc(len(self._invalid), type=VALUE_INVALID)
            logger().warning(
                "values of a filter can be no value of its column and are ignored",
                values=sorted(self._invalid)[:_NAMED_VALUES],
                more=len(self._invalid) - min(len(self._invalid), _NAMED_VALUES),
            )
        self._blind.clear()
        self._invalid.clear()

    def _counted(self, name: str, filtered: Filtered) -> pa.RecordBatch:
        for reason, count in filtered.skipped.items():
            self._metrics.records_skipped.inc(count, reason=reason)
        for value, count in filtered.matched.items():
            self._metrics.filter_matched.inc(count, value=value)
        self._blind[name] += filtered.blind
        self._invalid |= set(filtered.invalid)
        return filtered.batch
