"""The names and labels of the series: dashboards of the program before must go on working (behaviour 2)."""

import pytest

from millpond.metrics import Metrics
from tests.unit.fakes import metrics, value

FIRST = ("pipeline", "broker_source")
SERIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "records_consumed": ("counter", ("partition",)),
    "records_written": ("counter", ()),
    "batches_flushed": ("counter", ("trigger",)),
    "records_skipped": ("counter", ("reason",)),
    "filter_matched": ("counter", ("value",)),
    "errors": ("counter", ("type",)),
    "flush_duration_seconds": ("histogram", ()),
    "arrow_conversion_seconds": ("histogram", ()),
    "flush_size_bytes": ("histogram", ()),
    "flush_size_records": ("histogram", ()),
    "pending_bytes": ("gauge", ()),
    "buffer_fullness": ("gauge", ()),
    "consume_batch_size_current": ("gauge", ()),
    "consumer_lag": ("gauge", ("partition",)),
    "last_committed_offset": ("gauge", ("partition",)),
    "schema_columns_added": ("counter", ()),
    "schema_columns_widened": ("counter", ()),
    "sort_skipped": ("counter", ("reason",)),
    "columns_coerced": ("counter", ("target_type",)),
    "include_values_mode": ("gauge", ("mode",)),
    "include_values_size": ("gauge", ()),
    "include_values_last_success_timestamp_seconds": ("gauge", ()),
    "include_values_pending_removals": ("gauge", ()),
    "include_values_shadow_only_static": ("gauge", ()),
    "include_values_shadow_only_remote": ("gauge", ()),
    "include_values_pinned": ("gauge", ()),
    "include_values_pinned_only": ("gauge", ()),
    "include_values_poll_failures": ("counter", ()),
    "include_values_refused": ("counter", ("reason",)),
    "include_values_changes": ("counter", ("action",)),
    "hoglake_files_written": ("counter", ()),
    "hoglake_commit_replays": ("counter", ("outcome",)),
    "hoglake_orphaned_files": ("counter", ("reason",)),
    "rdkafka_replyq": ("gauge", ()),
    "rdkafka_msg_cnt": ("gauge", ()),
    "rdkafka_msg_size": ("gauge", ()),
    "rdkafka_broker_rtt_avg_seconds": ("gauge", ("broker",)),
    "rdkafka_broker_rtt_p99_seconds": ("gauge", ("broker",)),
}
ADDED: dict[str, tuple[str, tuple[str, ...]]] = {
    "offset_reset": ("counter", ("reason",)),
    "offset_gap": ("counter", ("partition",)),
    "recovered_flushes": ("counter", ()),
}


@pytest.mark.parametrize(("name", "kind", "labels"), [(n, k, ls) for n, (k, ls) in (SERIES | ADDED).items()])
def test_a_series_has_its_name_kind_and_labels(name: str, kind: str, labels: tuple[str, ...]) -> None:
    families = {family.name: family for family in metrics().registry.collect()}
    assert kind == families[f"millpond_{name}"].type
    declared = metrics().registry._names_to_collectors[f"millpond_{name}"]
    assert (*FIRST, *labels) == vars(declared)["_labelnames"]


@pytest.mark.parametrize(
    "name", [n for n, (kind, labels) in SERIES.items() if not labels and kind == "counter"]
)
def test_a_series_without_labels_is_at_zero_from_the_first_scrape(name: str) -> None:
    assert value(metrics(), f"millpond_{name}_total") == 0


def test_every_series_carries_the_pipeline_and_the_broker() -> None:
    series = Metrics("topic-table", "warpstream")
    series.errors.inc(type="kafka")
    for family in series.registry.collect():
        if family.name.startswith("millpond_"):
            for sample in family.samples:
                assert ("topic-table", "warpstream") == tuple(sample.labels[label] for label in FIRST)


@pytest.mark.parametrize(
    ("name", "longest"),
    [("flush_duration_seconds", 480), ("flush_size_bytes", 1e9), ("flush_size_records", 1e6)],
)
def test_a_histogram_reaches_to_what_is_still_allowed(name: str, longest: float) -> None:
    """Behaviour 10, 13: buckets that end at 10 s hide every slow flush."""
    (family,) = [f for f in metrics().registry.collect() if f.name == f"millpond_{name}"]
    limits = [float(s.labels["le"]) for s in family.samples if s.name.endswith("_bucket")]
    assert [longest, float("inf")] == limits[-2:]


def test_nothing_counted_makes_no_series() -> None:
    series = metrics()
    series.records_skipped.inc(0, reason="json_parse")
    assert value(series, "millpond_records_skipped_total", reason="json_parse") is None


def test_values_are_counted_set_and_observed() -> None:
    series = metrics()
    series.errors.inc(type="kafka")
    series.errors.inc(2, type="kafka")
    series.lag.set(7, partition="3")
    series.flush_seconds.observe(2)
    assert value(series, "millpond_errors_total", type="kafka") == 3
    assert value(series, "millpond_consumer_lag", partition="3") == 7
    assert value(series, "millpond_flush_duration_seconds_bucket", le="2.5") == 1
    assert value(series, "millpond_flush_duration_seconds_bucket", le="1.0") == 0


def test_two_pipelines_in_one_process_do_not_meet() -> None:
    one, other = metrics(), metrics()
    one.records_written.inc(5)
    assert value(other, "millpond_records_written_total") == 0
