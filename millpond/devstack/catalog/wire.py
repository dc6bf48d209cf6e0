"""How values look on the wire: strict bodies, instants, UUIDs, answers without nulls (contract 1.3)."""

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from millpond.devstack.catalog.errors import BadRequestError

Model = TypeVar("Model", bound=BaseModel)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_INT64: Final = range(-(2**63), 2**63)


def uuid_text(given: str) -> str:
    """The canonical lower-case form of a UUID, or `ValueError`."""
    if not _UUID.fullmatch(given):
        raise ValueError(f"{given!r} is not a UUID")
    return given.lower()


def _decode_base64(given: Any) -> Any:
    if not isinstance(given, str):
        raise ValueError("must be a base64 string")  # noqa: TRY004  # pydantic reports ValueError, not TypeError
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not standard base64 with padding: {error}") from error


Int64 = Annotated[int, Field(ge=_INT64.start, le=_INT64.stop - 1)]
UuidText = Annotated[str, AfterValidator(uuid_text)]
Base64 = Annotated[bytes, BeforeValidator(_decode_base64)]


class Body(BaseModel):
    """A request body or a part of one: strict in names and types, null counts as absent."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, ser_json_bytes="base64")


def read_body(model: type[Model], raw: bytes) -> Model:
    """Parse a body strictly.

    Raises:
        BadRequestError: names the first place that does not fit (contract 1.3).
    """
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"]) or "body"
        raise BadRequestError(f"{place}: {first['msg']}") from error


def present(**properties: Any) -> dict[str, Any]:
    """The properties that have a value: null is never sent."""
    return {name: value for name, value in properties.items() if value is not None}


def base64_text(value: bytes | None) -> str | None:
    """Bytes as standard base64 with padding; the empty value is a value."""
    return None if value is None else base64.b64encode(value).decode()


def instant_text(micros: int) -> str:
    """An instant as ISO-8601 with `Z` and all six digits, so that reading it back is exact."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def instant_micros(name: str, text: str) -> int:
    """Microseconds since the epoch of an ISO-8601 instant with an offset.

    Raises:
        BadRequestError: unreadable, or without an offset.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadRequestError(f"{name}: {text!r} is not an ISO-8601 instant") from error
    if moment.tzinfo is None:
        raise BadRequestError(f"{name}: {text!r} has no offset; add Z or +hh:mm")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def query_integer(name: str, text: str) -> int:
    """A 64-bit integer of a query parameter, or `BadRequestError`."""
    if re.fullmatch(r"[+-]?[0-9]{1,19}", text) and int(text) in _INT64:
        return int(text)
    raise BadRequestError(f"{name}: {text!r} is not a 64-bit integer")


def path_uuid(name: str, text: str) -> str:
    """A UUID of a path segment or query parameter in canonical form, or `BadRequestError`."""
    try:
        return uuid_text(text)
    except ValueError as error:
        raise BadRequestError(f"{name}: {error}") from error
