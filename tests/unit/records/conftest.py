"""Decoding every way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from millpond.records import Decoded, Decoder, Limits, Way
from tests.unit.records.trials import NO_COLUMNS, NO_PINS, Decode
from tests.unit.records.ways import EVERY_WAY, Types, exact_rows


@pytest.fixture(params=EVERY_WAY)
def way(request: pytest.FixtureRequest) -> Way:
    return cast("Way", request.param)


@pytest.fixture
def read(way: Way) -> Decode:
    """Decodes records; twice, because the decoder learns, and what it learns must change nothing."""

    def decode(
        *records: str | bytes,
        live: Types = NO_COLUMNS,
        pins: Mapping[str, str] = NO_PINS,
        limits: Limits | None = None,
    ) -> Decoded:
        values = [record.encode() if isinstance(record, str) else record for record in records]
        decoder = Decoder(pins, limits=limits or Limits(), way=way)
        decoder.expect(live)
        first, second = decoder.decode(values), decoder.decode(values)
        assert (first.batch.schema, exact_rows(first)) == (second.batch.schema, exact_rows(second))
        assert (first.skipped, first.misfits) == (second.skipped, second.misfits)
        return second

    return decode
