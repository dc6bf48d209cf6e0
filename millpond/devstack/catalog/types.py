"""The 27 column types: vocabulary, promotions, and the width of a statistics bound (contract 9, 6)."""

from collections.abc import Mapping
from typing import Any, Final

from millpond.devstack.catalog.errors import InvalidError

CONTAINERS: Final = frozenset({"list", "struct", "map"})

#: Bytes of one bound by type, for the types whose bounds have a fixed width.
FIXED_BOUND_BYTES: Final[Mapping[str, int]] = {
    "boolean": 1,
    **dict.fromkeys(("int8", "int16", "uint8", "uint16", "int", "date", "float"), 4),
    **dict.fromkeys(("uint32", "long", "time", "double"), 8),
    **dict.fromkeys(("timestamp_s", "timestamp_ms", "timestamp", "timestamp_ns", "timestamptz"), 8),
    "uuid": 16,
}
#: Most bytes of one bound for the types stored as minimal big-endian two's complement.
BIG_ENDIAN_BOUND_BYTES: Final[Mapping[str, int]] = {"uint64": 9, "decimal": 16}
#: Types whose bounds are plain bytes of any length.
RAW_BOUND_TYPES: Final = frozenset({"string", "json", "binary"})
FLOATS: Final = frozenset({"float", "double"})

SCALARS: Final = frozenset({*FIXED_BOUND_BYTES, *BIG_ENDIAN_BOUND_BYTES, *RAW_BOUND_TYPES, "variant"})
VOCABULARY: Final = SCALARS | CONTAINERS

TEMPORAL: Final = frozenset(
    {"date", "timestamp_s", "timestamp_ms", "timestamp", "timestamp_ns", "timestamptz"}
)
BUCKETABLE: Final = frozenset(
    {"int8", "int16", "int", "long", "uint8", "uint16", "decimal", "date", "time"}
    | {"timestamp", "timestamptz", "string", "uuid", "binary"}
)

#: Every allowed promotion; what is absent is refused, decimals included.
PROMOTIONS: Final[Mapping[str, frozenset[str]]] = {
    "int8": frozenset({"int16", "int", "long"}),
    "int16": frozenset({"int", "long"}),
    "int": frozenset({"long"}),
    "uint8": frozenset({"uint16", "uint32"}),
    "uint16": frozenset({"uint32"}),
    "float": frozenset({"double"}),
}

_GEOMETRIES: Final = (
    *("point", "linestring", "polygon", "linestring_z"),
    *("multipoint", "multilinestring", "multipolygon", "geometrycollection"),
)
_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("int128", "uint128"), "no table format type is wide enough"),
    "timetz": "a time of day with a zone has no table format type",
    "interval": "an interval has no table format type",
    **dict.fromkeys(_GEOMETRIES, "geometries are not supported"),
}
_DECIMAL_MAX_PRECISION: Final = 38


def type_name(given: str) -> str:
    """The canonical name of a type, matched without regard to case.

    Raises:
        InvalidError: the name is unknown, or known and refused, with the reason.
    """
    name = given.lower()
    if name in VOCABULARY:
        return name
    if reason := _REFUSED.get(name):
        raise InvalidError(f"type {given!r} cannot be a column: {reason}")
    raise InvalidError(f"unknown type {given!r}; known are {', '.join(sorted(VOCABULARY))}")


def check_promotion(column: str, current: str, wanted: str) -> None:
    """Refuse any type change outside the promotion matrix (contract 9.2)."""
    if wanted in PROMOTIONS.get(current, frozenset()):
        return
    targets = ", ".join(sorted(PROMOTIONS.get(current, ()))) or "no other type"
    raise InvalidError(
        f"column {column!r} cannot go from {current} to {wanted}; {current} promotes to {targets}"
    )


def check_type_params(column: str, name: str, params: Mapping[str, Any] | None, *, top_level: bool) -> None:
    """Refuse parameters a type cannot carry, and a decimal without a readable precision and scale."""
    if params is not None and name in CONTAINERS:
        raise InvalidError(f"column {column!r} is a {name}: its shape is its children, it has no type_params")
    if name == "decimal":
        _check_decimal(column, params or {})
    if params is not None and "shredding" in params:
        if name != "variant":
            raise InvalidError(f"column {column!r} is {name}: only a variant declares type_params.shredding")
        if not top_level:
            raise InvalidError(f"column {column!r}: only a top-level variant declares type_params.shredding")


def _check_decimal(column: str, params: Mapping[str, Any]) -> None:
    precision, scale = params.get("precision"), params.get("scale", 0)
    if type(precision) is not int or not 1 <= precision <= _DECIMAL_MAX_PRECISION:
        raise InvalidError(f"decimal column {column!r} needs a precision of 1 to {_DECIMAL_MAX_PRECISION}")
    if type(scale) is not int or not 0 <= scale <= precision:
        raise InvalidError(f"decimal column {column!r} needs a scale of 0 to its precision {precision}")
