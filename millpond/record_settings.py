"""The variables that say what becomes of a record before it is written."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import NoDecode

from millpond.records.kafka_columns import KAFKA_COLUMNS
from millpond.records.names import IDENTIFIER, is_usable
from millpond.records.pins import PIN_ARROW_TYPES
from millpond.records.scan_library import UnavailableError, library
from millpond.settings import Section, lower

PIN_TYPES = tuple(PIN_ARROW_TYPES)


def _columns(text: Any) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in str(text).split(",") if name.strip()))
    for name in names:
        if IDENTIFIER.fullmatch(name) is None:
            raise ValueError(f"{name!r} is not a column name ({IDENTIFIER.pattern})")
    if not names:
        raise ValueError("names no column")
    return names


def _pins(text: Any) -> dict[str, str]:
    pins: dict[str, str] = {}
    for entry in (entry.strip() for entry in str(text).split(",")):
        if not entry:
            continue
        column, colon, kind = (part.strip() for part in entry.partition(":"))
        if not colon or IDENTIFIER.fullmatch(column) is None:
            raise ValueError(f"{entry!r} is not `column:type`")
        if kind.lower() not in PIN_TYPES:
            raise ValueError(f"{entry!r} names no type out of {', '.join(PIN_TYPES)}")
        if not is_usable(column):
            raise ValueError(f"{column!r} is a reserved name")
        if pins.setdefault(column, kind.lower()) != kind.lower():
            raise ValueError(f"{column!r} is pinned to two types")
    return pins


Columns = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_columns)]
Pins = Annotated[dict[str, str], NoDecode, BeforeValidator(_pins)]


class RecordSettings(Section):
    """What becomes of a record before it is written."""

    sort_by: Columns = Field(
        (), alias="MILLPOND_SORT_BY", description="Columns each file is sorted by, ascending, nulls last."
    )
    typed_columns: Pins = Field(
        default_factory=dict,
        alias="MILLPOND_TYPED_COLUMNS",
        description=f"Column types fixed by hand, `column:type` with type out of {', '.join(PIN_TYPES)}. "
        "With a unit a number is an instant in seconds, milliseconds or microseconds since the epoch, cut at "
        "the microsecond; text is read alike.",
    )
    kafka_columns: bool = Field(
        default=False,
        alias="MILLPOND_KAFKA_COLUMNS",
        description=f"`true` writes with each row where it comes from: `{'`, `'.join(KAFKA_COLUMNS.names)}`. "
        "Keys of these names in a record are left out then.",
    )
    quarantine: Annotated[Literal["table", "skip"], BeforeValidator(lower)] = Field(
        "table",
        alias="MILLPOND_QUARANTINE",
        description="Where a record goes that does not go in as it came: `table`, which is "
        "`<HOGLAKE_TABLE>_quarantine`, written in the same commit; or `skip`, which only counts it.",
    )
    quarantine_max_fraction: float = Field(
        0.5,
        alias="MILLPOND_QUARANTINE_MAX_FRACTION",
        gt=0,
        le=1,
        description="The process stops when more than this share of a flush of 1,000 records or more made "
        "no row: the topic is probably not what was meant. 1 never stops.",
    )
    on_mismatch: Annotated[Literal["null", "reject"], BeforeValidator(lower)] = Field(
        "null",
        alias="MILLPOND_ON_MISMATCH",
        description="A value that does not fit its column: `null` writes the row without it and a copy of "
        "the record to quarantine; `reject` writes the record to quarantine only.",
    )
    max_record_bytes: int = Field(
        16_777_216,
        alias="MILLPOND_MAX_RECORD_BYTES",
        ge=1,
        description="A larger record is not read, and goes to quarantine.",
    )
    max_columns: int = Field(
        1000,
        alias="MILLPOND_MAX_COLUMNS",
        ge=1,
        le=10_000,
        description="The table gets no new column beyond this number; records that bring one go in without "
        "it, and to quarantine.",
    )

    decoder: Annotated[Literal["auto", "compiled", "python"], BeforeValidator(lower)] = Field(
        "auto",
        alias="MILLPOND_DECODER",
        description="What reads the records: `compiled`, a library that is built where cargo is found at "
        "the installation, and is in the image; `python`, which means the same and takes longer; "
        "`auto`, the first of them that is there.",
    )

    @model_validator(mode="after")
    def _check_decoder(self) -> Self:
        if self.decoder == "compiled":
            try:
                library()
            except UnavailableError as error:
                raise ValueError(
                    f"MILLPOND_DECODER: there is no compiled decoder here ({error}); install millpond where "
                    "cargo is found, or take `auto`"
                ) from None
        return self

    @model_validator(mode="after")
    def _check_pins(self) -> Self:
        pinned = self.typed_columns.keys() & set(KAFKA_COLUMNS.names)
        if self.kafka_columns and pinned:
            raise ValueError(
                f"MILLPOND_TYPED_COLUMNS: {', '.join(sorted(pinned))} cannot be pinned; "
                "MILLPOND_KAFKA_COLUMNS=true gives these columns their types"
            )
        return self
