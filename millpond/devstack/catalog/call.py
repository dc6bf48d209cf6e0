"""One request as its handler sees it, and one answer as it leaves."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from millpond.devstack.catalog.engine.ledger import (
    ANONYMOUS,
    Attribution,
    CatalogState,
    Mutation,
    load_catalog,
)
from millpond.devstack.catalog.engine.travel import Pin
from millpond.devstack.catalog.errors import BadRequestError, InvalidError
from millpond.devstack.catalog.settings import CatalogSettings
from millpond.devstack.catalog.storage import Storage
from millpond.devstack.catalog.wire import Model, instant_micros, path_uuid, query_integer, read_body

Clock = Callable[[], int]


class Background(Protocol):
    """Work on objects; there is none without an object store."""

    def start(self) -> None:
        """Begin what runs on its own."""

    def stop(self) -> None:
        """End it."""

    def compact(self, catalog: str, limit: int) -> dict[str, int]:
        """Compact at most `limit` groups of files; answers counters."""

    def delete(self, paths: Sequence[str]) -> int:
        """Delete objects; answers how many were there."""


@dataclass(eq=False)
class Service:
    """What every handler works with; `clock` answers microseconds since the epoch.

    Only `settings` is ever replaced, by the switches under `/_control`.
    """

    storage: Storage
    settings: CatalogSettings
    clock: Clock
    background: Background | None = None


@dataclass(frozen=True)
class Reply:
    """A JSON answer; 201 for what a POST created, 200 for everything else."""

    payload: Any
    status: int = 200


@dataclass(frozen=True, eq=False)  # by identity: a call is the borrower of a handler thread
class Call:
    """One request: decoded path segments, query, headers and the raw body."""

    service: Service
    segments: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    raw_body: bytes

    @contextlib.contextmanager
    def reading(self) -> Iterator[tuple[sqlite3.Connection, CatalogState]]:
        """A read transaction and the catalog named in the path, as of one moment."""
        with self.service.storage.read() as db:
            yield db, load_catalog(db, self.segments["catalog"])

    @contextlib.contextmanager
    def mutating(self, attribution: Attribution = ANONYMOUS) -> Iterator[Mutation]:
        """The catalog lock and a write transaction on the catalog named in the path."""
        with self.service.storage.write() as db:
            catalog = load_catalog(db, self.segments["catalog"])
            yield Mutation(db, catalog, attribution, self.service.clock())

    def body(self, model: type[Model]) -> Model:
        """The body as `model`, or `BadRequestError`; a body is always JSON (contract 1.2)."""
        return read_body(model, self.json_bytes())

    def json_bytes(self) -> bytes:
        """The body, once its content type says JSON."""
        content_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise BadRequestError(f"Content-Type must be application/json, is {content_type or 'absent'!r}")
        return self.raw_body

    def uuid(self, name: str) -> str:
        """A UUID path segment in canonical form."""
        return path_uuid(name, self.segments[name])

    def query_uuid(self, name: str) -> str | None:
        """A UUID query parameter in canonical form, None when absent."""
        text = self.query.get(name)
        return None if text is None else path_uuid(name, text)

    def integer(self, name: str) -> int | None:
        """An integer query parameter, None when absent."""
        text = self.query.get(name)
        return None if text is None else query_integer(name, text)

    def integer_or(self, name: str, default: int) -> int:
        """An integer query parameter with a default."""
        found = self.integer(name)
        return default if found is None else found

    def flag(self, name: str, *, default: bool) -> bool:
        """A boolean query parameter: exactly `true` or `false`."""
        text = self.query.get(name)
        if text is None:
            return default
        if text not in {"true", "false"}:
            raise BadRequestError(f"{name}: {text!r} is neither true nor false")
        return text == "true"

    def pin(self) -> Pin:
        """The time-travel parameters."""
        at = self.query.get("at_timestamp")
        return Pin(self.integer("snapshot"), None if at is None else instant_micros("at_timestamp", at))

    def query_attribution(self) -> Attribution:
        """Author and message of a drop; a strict server (1.4) insists on both."""
        return self.attribution(self.query.get("author"), self.query.get("message"))

    def attribution(self, author: str | None, message: str | None) -> Attribution:
        """Author and message of a request that a strict server wants attributed."""
        if self.service.settings.require_attribution:
            for name, value in (("author", author), ("message", message)):
                if value is None or not value.strip():
                    raise InvalidError(f"{name} is required and must not be blank")
        return Attribution(author, message)
