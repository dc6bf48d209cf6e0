"""How long the known shape of the table may be used (behaviour 6.6)."""

from dataclasses import replace
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyhoglake import HoglakeError
from pyhoglake.models import CatalogOptions

from millpond.hoglake.shape import Shape, ShapeCache, with_basis_of
from millpond.metrics import Metrics
from tests.unit.fakes import FakeClock, metrics, table_info, value

INFO = table_info(pa.schema({"a": pa.int64()}))


class Options:
    """A catalog that tells its retention, or fails to."""

    def __init__(self, retention: int | None = 3600) -> None:
        self.retention = retention
        self.failure: Exception | None = None
        self.reads = 0

    def options(self) -> CatalogOptions:
        self.reads += 1
        if self.failure is not None:
            raise self.failure
        return CatalogOptions(
            consumer_floor=False, earliest_snapshot_id=0, snapshot_retention_seconds=self.retention
        )


class Handle:
    """A table handle that knows whether its own copy was dropped."""

    def __init__(self) -> None:
        self.invalidated = 0

    def invalidate(self) -> None:
        self.invalidated += 1


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def series() -> Metrics:
    return metrics()


@pytest.fixture
def catalog() -> Options:
    return Options()


@pytest.fixture
def handle() -> Any:
    return Handle()


@pytest.fixture
def cache(catalog: Any, series: Metrics, clock: FakeClock) -> ShapeCache:
    return ShapeCache(catalog, series, clock=clock)


def seconds_used(cache: ShapeCache, clock: FakeClock) -> float:
    """How long the shape in the cache is handed out, to half a second."""
    began = clock.now
    while cache.get() is not None and clock.now - began < 5000:
        clock.advance(0.5)
    return clock.now - began


def test_nothing_is_known_before_the_first_read(cache: ShapeCache) -> None:
    assert (None, None, False) == (cache.get(), cache.handle, cache.was_there)


@pytest.mark.parametrize(("retention", "expected"), [(3600, 900), (1800, 450), (60, 15), (2, 1)])
def test_a_shape_is_used_for_a_quarter_of_the_retention(
    series: Metrics, clock: FakeClock, handle: Any, retention: int, expected: int
) -> None:
    catalog: Any = Options(retention)
    cache = ShapeCache(catalog, series, clock=clock)
    assert Shape(handle, INFO) == cache.adopt(handle, INFO) == cache.get()
    assert expected == seconds_used(cache, clock)


def test_a_shape_is_used_for_ever_when_nothing_expires(
    cache: ShapeCache, catalog: Options, clock: FakeClock, handle: Any
) -> None:
    catalog.retention = None
    cache.adopt(handle, INFO)
    clock.advance(10**15)
    assert Shape(handle, INFO) == cache.get()


@pytest.mark.parametrize("failure", [HoglakeError("HTTP 500", status_code=500), httpx.ReadTimeout("slow")])
def test_an_unknown_retention_is_taken_for_half_an_hour_and_counted(
    series: Metrics, clock: FakeClock, handle: Any, failure: Exception
) -> None:
    catalog: Any = Options()
    catalog.failure = failure
    cache = ShapeCache(catalog, series, clock=clock)
    cache.adopt(handle, INFO)
    assert 450 == seconds_used(cache, clock)
    assert 1 == value(series, "millpond_errors_total", type="retention_unknown")


def test_a_shorter_retention_is_learned_with_the_next_read(
    cache: ShapeCache, catalog: Options, clock: FakeClock, handle: Any
) -> None:
    cache.adopt(handle, INFO)
    catalog.retention = 40
    cache.adopt(handle, INFO)
    clock.advance(10)
    assert cache.get() is None


def test_using_a_shape_asks_the_catalog_nothing(cache: ShapeCache, catalog: Options, handle: Any) -> None:
    cache.adopt(handle, INFO)
    for _ in range(100):
        cache.get()
    assert 1 == catalog.reads


def test_a_dropped_shape_keeps_the_handle_and_drops_the_clients_copy(cache: ShapeCache, handle: Any) -> None:
    cache.adopt(handle, INFO)
    cache.drop()
    assert (None, handle, 1) == (cache.get(), cache.handle, handle.invalidated)


def test_a_dropped_table_is_looked_up_anew_but_is_known_to_have_been_there(
    cache: ShapeCache, handle: Any
) -> None:
    cache.adopt(handle, INFO)
    cache.drop_table()
    assert (None, None, True) == (cache.get(), cache.handle, cache.was_there)


def test_dropping_what_is_not_there_does_no_harm(cache: ShapeCache) -> None:
    cache.drop_table()
    assert cache.get() is None


@pytest.mark.parametrize(
    ("looked_at", "prepared_at", "expected"), [(7, 9, 7), (9, 9, 9), (9, 7, 7), (None, 7, 7), (0, 7, 0)]
)
def test_a_commit_is_based_on_the_older_of_two_looks(
    looked_at: int | None, prepared_at: int, expected: int
) -> None:
    """A spec changed between the two must lie behind the basis, so that the server refuses."""
    info = replace(INFO, read_snapshot_id=looked_at)
    payload = {"read_snapshot": prepared_at, "idempotency_key": "k"}
    assert {"read_snapshot": expected, "idempotency_key": "k"} == with_basis_of(info, payload)
