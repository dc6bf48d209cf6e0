"""The variables of the keep and the drop filter, and of the list of values that is fetched by HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit, urlunsplit

import pyarrow as pa
from pydantic import BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import NoDecode

from millpond.record_settings import RecordSettings
from millpond.records.kafka_columns import KAFKA_COLUMNS
from millpond.records.names import IDENTIFIER, is_usable
from millpond.records.pins import PIN_ARROW_TYPES
from millpond.records.value_list import Value, ValueList, parse_values
from millpond.settings import Section

Mode = Literal["static", "shadow", "authoritative"]

_HEADER_NAME = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
_VISIBLE = re.compile(r"[\x20-\x7e]+")
_SHOWN_VALUES = 5


def _field(text: Any) -> str:
    name = str(text)
    if IDENTIFIER.fullmatch(name) is None or not is_usable(name):
        raise ValueError(f"is no column of a record ({IDENTIFIER.pattern}, not reserved)")
    return name


def _values(text: Any) -> tuple[Value, ...]:
    texts = [value.strip() for value in str(text).split(",") if value.strip()]
    if not texts:
        raise ValueError("names no value")
    for value in texts:
        value.encode()  # what is no UTF-8 in the environment can be in no record; its error is a ValueError
    return parse_values(texts)


def _endpoint(text: Any) -> str:
    """Taken as it is written: a slash at its end may matter to the server."""
    if re.fullmatch(r"https?://[^\s/?#]+([/?]\S*)?", str(text)) is None:
        raise ValueError("must be an http:// or https:// URL")
    return str(text)


def _token(text: Any) -> SecretStr:
    if _VISIBLE.fullmatch(str(text)) is None:
        raise ValueError("must be printable ASCII, as the value of an HTTP header is")
    return SecretStr(str(text))


FilterField = Annotated[str, BeforeValidator(_field)]
Values = Annotated[tuple[Value, ...], NoDecode, BeforeValidator(_values)]
Endpoint = Annotated[str, BeforeValidator(_endpoint)]
Token = Annotated[SecretStr, BeforeValidator(_token)]


class FilterSettings(Section):
    """Which records become rows, by the value of a field. The offsets of all of them are committed.

    A list is all integers or all text (`007` is text). A text column matches equal text, a column of numbers
    equal numbers, one of booleans `true` and `false`, a pinned timestamptz or uuid what the pin reads. Where
    a record has no value, or a batch no column that can match, the keep filter leaves out and the drop filter
    writes. The list of an endpoint is refused, and counted, when it is empty, when it misses more than half
    of what it listed before, or when integers become text or text integers.
    """

    keep_field: FilterField | None = Field(
        None,
        alias="MILLPOND_FILTER_KEEP_FIELD_NAME",
        description="Only records whose value of this field is listed are written; one without it is not.",
    )
    keep_values: Values = Field(
        (),
        alias="MILLPOND_FILTER_VALUES",
        description="The values to keep; with MILLPOND_INCLUDE_VALUES_URL those that are never removed.",
    )
    drop_field: FilterField | None = Field(
        None,
        alias="MILLPOND_FILTER_DROP_FIELD_NAME",
        description="Records whose value of this field is listed are left out; one without it is written.",
    )
    drop_values: Values = Field(
        (), alias="MILLPOND_FILTER_DROP_VALUES", description="The values to leave out, after the keep filter."
    )
    url: Endpoint | None = Field(
        None,
        alias="MILLPOND_INCLUDE_VALUES_URL",
        description="Answers GET with a JSON array of values to keep, at most 4 MiB; no redirects.",
    )
    url_mode: Annotated[Literal["shadow", "authoritative"], BeforeValidator(lambda t: str(t).lower())] = (
        Field(
            "shadow",
            alias="MILLPOND_INCLUDE_VALUES_MODE",
            description="`authoritative`: values to keep are those of the URL and MILLPOND_FILTER_VALUES. "
            "`shadow`: those of the URL are only compared and counted.",
        )
    )
    poll_seconds: float = Field(
        60,
        alias="MILLPOND_INCLUDE_VALUES_POLL_INTERVAL_S",
        gt=0,
        le=86_400,
        description="How often the URL is asked, give or take 10 %.",
    )
    removal_polls: int = Field(
        5,
        alias="MILLPOND_INCLUDE_VALUES_REMOVAL_POLLS",
        ge=1,
        le=10_000,
        description="How many answers in a row must miss a value before it is removed.",
    )
    request_seconds: float = Field(
        10,
        alias="MILLPOND_INCLUDE_VALUES_REQUEST_TIMEOUT_S",
        gt=0,
        le=600,
        description="Time one answer may take, the last byte included.",
    )
    start_seconds: float = Field(
        60,
        alias="MILLPOND_INCLUDE_VALUES_STARTUP_TIMEOUT_S",
        gt=0,
        le=3600,
        description="How long an authoritative start waits for its first list, then ends with code 1.",
    )
    auth_header: str | None = Field(
        None,
        alias="MILLPOND_INCLUDE_VALUES_AUTH_HEADER_NAME",
        pattern=_HEADER_NAME,
        description="One header that is sent along, for example `Authorization`.",
    )
    auth_token: Token | None = Field(
        None, alias="MILLPOND_INCLUDE_VALUES_AUTH_TOKEN", description="The value of that header."
    )

    @property
    def mode(self) -> Mode:
        """Where the values to keep come from."""
        return self.url_mode if self.url else "static"

    @property
    def shown_url(self) -> str:
        """The URL as it may be printed: without credentials and query, which may hold a secret."""
        parts = urlsplit(self.url or "")
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed and seldom meant."""
        if self.url and self.removal_polls == 1:
            return (
                "MILLPOND_INCLUDE_VALUES_REMOVAL_POLLS=1: a value is removed as soon as one answer misses it",
            )
        return ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = [*self._unpaired(), *(self._of_the_url() if self.url else self._without_url())]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _unpaired(self) -> list[str]:
        pairs = (
            ("MILLPOND_FILTER_KEEP_FIELD_NAME", "MILLPOND_FILTER_VALUES", self.keep_field, self.keep_values),
            (
                "MILLPOND_FILTER_DROP_FIELD_NAME",
                "MILLPOND_FILTER_DROP_VALUES",
                self.drop_field,
                self.drop_values,
            ),
            (
                "MILLPOND_INCLUDE_VALUES_AUTH_HEADER_NAME",
                "MILLPOND_INCLUDE_VALUES_AUTH_TOKEN",
                self.auth_header,
                self.auth_token,
            ),
        )
        return [
            f"{first}, {second}: only one of them is set; set both or neither"
            for first, second, one, other in pairs
            if bool(one) != bool(other) and not (self.url and first == "MILLPOND_FILTER_KEEP_FIELD_NAME")
        ]

    def _of_the_url(self) -> list[str]:
        if self.keep_field is None:
            return [
                "MILLPOND_INCLUDE_VALUES_URL: needs MILLPOND_FILTER_KEEP_FIELD_NAME, the field to keep by"
            ]
        if self.url_mode == "shadow" and not self.keep_values:
            return ["MILLPOND_INCLUDE_VALUES_MODE='shadow': needs MILLPOND_FILTER_VALUES to filter by"]
        return []

    def _without_url(self) -> list[str]:
        needy = {
            "url_mode": "MILLPOND_INCLUDE_VALUES_MODE",
            "auth_header": "MILLPOND_INCLUDE_VALUES_AUTH_HEADER_NAME",
            "auth_token": "MILLPOND_INCLUDE_VALUES_AUTH_TOKEN",
        }
        return [
            f"{variable}: needs MILLPOND_INCLUDE_VALUES_URL; set it, or unset this"
            for name, variable in needy.items()
            if name in self.model_fields_set
        ]


def misfits(filters: FilterSettings, records: RecordSettings) -> list[str]:
    """Static values that the type of their column cannot hold, so that they would never match."""
    types: dict[str, pa.DataType] = {c: PIN_ARROW_TYPES[pin] for c, pin in records.typed_columns.items()}
    if records.kafka_columns:
        types |= {column.name: column.type for column in KAFKA_COLUMNS}
    return [
        problem
        for variable, field, values in (
            ("MILLPOND_FILTER_VALUES", filters.keep_field, filters.keep_values),
            ("MILLPOND_FILTER_DROP_VALUES", filters.drop_field, filters.drop_values),
        )
        if field is not None and field in types
        for problem in _misfit(variable, field, values, types)
    ]


def _misfit(
    variable: str, field: str, values: tuple[Value, ...], types: Mapping[str, pa.DataType]
) -> list[str]:
    unusable = ValueList(values).lookup(types[field]).unusable
    if not unusable:
        return []
    shown = ", ".join(unusable[:_SHOWN_VALUES])
    kind = {made: pin for pin, made in PIN_ARROW_TYPES.items()}.get(types[field], types[field])
    return [f"{variable}: {shown} can be no value of the column {field}, whose type is {kind}"]
