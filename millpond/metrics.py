"""The Prometheus series of the service; names and labels are those of behaviour 2."""

from __future__ import annotations

from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

_FIRST_LABELS = ("pipeline", "broker_source")
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 240, 480)
_CONVERSION_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_BYTES = (1e6, 5e6, 1e7, 2.5e7, 5e7, 1e8, 2.5e8, 5e8, 1e9)
_RECORDS = (100, 500, 1e3, 5e3, 1e4, 5e4, 1e5, 5e5, 1e6)


class _Series:
    """One metric with the first two labels bound; the others are given by keyword."""

    def __init__(self, metric: Any, bound: dict[str, str]) -> None:
        self._metric = metric
        self._bound = bound

    def labels(self, **labels: str) -> Any:
        return self._metric.labels(**self._bound, **labels)

    def inc(self, amount: float = 1, **labels: str) -> None:
        if amount:
            self.labels(**labels).inc(amount)

    def set(self, value: float, **labels: str) -> None:
        self.labels(**labels).set(value)

    def observe(self, value: float, **labels: str) -> None:
        self.labels(**labels).observe(value)


class Metrics:
    """All series of one pipeline, in a registry of their own."""

    def __init__(self, pipeline: str, broker_source: str) -> None:
        self.registry = CollectorRegistry()
        self._bound = {"pipeline": pipeline, "broker_source": broker_source}
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._declare_records()
        self._declare_filters()
        self._declare_flushes()
        self._declare_offsets()
        self._declare_sink()
        self._declare_client()

    def _declare_records(self) -> None:
        self.records_consumed = self._counter(
            "records_consumed", "Messages read, tombstones included", "partition"
        )
        self.records_written = self._counter("records_written", "Rows published to the table")
        self.records_skipped = self._counter(
            "records_skipped", "Records that became no row, and keys that became no column", "reason"
        )
        self.records_quarantined = self._counter(
            "records_quarantined", "Records published to the table of the quarantine", "reason"
        )
        self.columns_coerced = self._counter(
            "columns_coerced", "Columns turned into a pinned type", "target_type"
        )
        self.sort_skipped = self._counter("sort_skipped", "Rows written unsorted", "reason")
        self.errors = self._counter("errors", "Failures that were dealt with", "type")
        self.conversion_seconds = self._histogram(
            "arrow_conversion_seconds", "Time to turn one consume call into Arrow", _CONVERSION_SECONDS
        )
        self.pending_bytes = self._gauge("pending_bytes", "Arrow bytes waiting for a flush")
        self.buffer_fullness = self._gauge("buffer_fullness", "Pending bytes over FLUSH_SIZE")
        self.consume_batch_size = self._gauge(
            "consume_batch_size_current", "Messages asked for per consume call"
        )

    def _declare_filters(self) -> None:
        self.filter_matched = self._counter("filter_matched", "Rows the keep filter let through", "value")
        self.include_mode = self._gauge("include_values_mode", "1 for where values to keep come from", "mode")
        self.include_size = self._gauge("include_values_size", "Values the keep filter goes by")
        self.include_last_success = self._gauge(
            "include_values_last_success_timestamp_seconds", "When the endpoint last gave an accepted list"
        )
        self.include_pending_removals = self._gauge(
            "include_values_pending_removals", "Values the endpoint lists no more, not removed yet"
        )
        self.include_shadow_only_static = self._gauge(
            "include_values_shadow_only_static", "Shadow mode: configured values the endpoint does not list"
        )
        self.include_shadow_only_remote = self._gauge(
            "include_values_shadow_only_remote", "Shadow mode: listed values that are not configured"
        )
        self.include_pinned = self._gauge("include_values_pinned", "Configured values, never removed")
        self.include_pinned_only = self._gauge(
            "include_values_pinned_only", "Configured values the endpoint does not list"
        )
        self.include_poll_failures = self._counter(
            "include_values_poll_failures", "Polls of the endpoint that gave no list"
        )
        self.include_refused = self._counter("include_values_refused", "Lists that were refused", "reason")
        self.include_changes = self._counter(
            "include_values_changes", "Values added or removed after the first list", "action"
        )

    def _declare_flushes(self) -> None:
        self.batches_flushed = self._counter("batches_flushed", "Flushes published", "trigger")
        self.flush_seconds = self._histogram("flush_duration_seconds", "Whole flush, all attempts", _SECONDS)
        self.flush_bytes = self._histogram("flush_size_bytes", "Arrow bytes of a flush", _BYTES)
        self.flush_records = self._histogram("flush_size_records", "Rows of a flush", _RECORDS)
        self.schema_added = self._counter("schema_columns_added", "Columns added to the table")
        self.schema_widened = self._counter("schema_columns_widened", "Columns of the table widened")

    def _declare_offsets(self) -> None:
        self.lag = self._gauge("consumer_lag", "End of the log less the committed offset", "partition")
        self.last_committed = self._gauge(
            "last_committed_offset", "Next offset to read after a restart", "partition"
        )
        self.offset_reset = self._counter(
            "offset_reset", "Positions no committed offset of ours gave, by why", "reason"
        )
        self.offset_gap = self._counter(
            "offset_gap", "Offsets the log no longer had or never showed", "partition"
        )
        self.recovered = self._counter(
            "recovered_flushes", "Flushes found published but uncommitted at start"
        )

    def _declare_sink(self) -> None:
        self.files_written = self._counter("hoglake_files_written", "Parquet files registered")
        self.commit_replays = self._counter(
            "hoglake_commit_replays", "Commits answered from a receipt", "outcome"
        )
        self.orphaned_files = self._counter(
            "hoglake_orphaned_files", "Objects put but never registered", "reason"
        )

    def _declare_client(self) -> None:
        self.rdkafka_replyq = self._gauge("rdkafka_replyq", "Operations waiting to be served")
        self.rdkafka_msg_cnt = self._gauge("rdkafka_msg_cnt", "Messages in producer queues")
        self.rdkafka_msg_size = self._gauge("rdkafka_msg_size", "Bytes in producer queues")
        self.broker_rtt_avg = self._gauge(
            "rdkafka_broker_rtt_avg_seconds", "Mean round trip to a broker", "broker"
        )
        self.broker_rtt_p99 = self._gauge("rdkafka_broker_rtt_p99_seconds", "99th percentile of it", "broker")

    def _counter(self, name: str, text: str, *labels: str) -> _Series:
        return self._bind(
            Counter(f"millpond_{name}", text, (*_FIRST_LABELS, *labels), registry=self.registry), labels
        )

    def _gauge(self, name: str, text: str, *labels: str) -> _Series:
        return self._bind(
            Gauge(f"millpond_{name}", text, (*_FIRST_LABELS, *labels), registry=self.registry), labels
        )

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> _Series:
        histogram = Histogram(
            f"millpond_{name}", text, _FIRST_LABELS, buckets=buckets, registry=self.registry
        )
        return self._bind(histogram, ())

    def _bind(self, metric: Any, labels: tuple[str, ...]) -> _Series:
        series = _Series(metric, self._bound)
        if not labels:
            series.labels()  # an unlabelled series is there, at 0, from the first scrape
        return series
