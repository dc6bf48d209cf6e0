"""Every refusal of the catalog: one class a wire code, with status and extra properties (contract 2.1)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class CatalogError(Exception):
    """A refusal with a place on the wire. `detail` is prose for people; clients branch on `code`."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"

    def __init__(self, detail: str, **extras: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extras = extras

    def body(self) -> dict[str, Any]:
        """The JSON object sent to the client."""
        return {"error": self.code, "detail": self.detail, **self.extras}

    def headers(self) -> Mapping[str, str]:
        """Response headers beside the body; only an overload answer has one."""
        return {}


class BadRequestError(CatalogError):
    """The request cannot be read: malformed JSON, unknown property, wrong type."""

    status = 400
    code = "bad_request"


class NotFoundError(CatalogError):
    """An object named in the path does not exist, or not at the pinned snapshot."""

    status = 404
    code = "not_found"


class AlreadyExistsError(CatalogError):
    """The name is taken by a live object."""

    status = 409
    code = "already_exists"


class CommitConflictError(CatalogError):
    """A race the same request may win later."""

    status = 409
    code = "commit_conflict"


class DdlSinceReadSnapshotError(CatalogError):
    """A touched table changed its shape after the basis of the request."""

    status = 409
    code = "ddl_since_read_snapshot"

    def __init__(self, tables: Sequence[str], read_snapshot: int) -> None:
        names = ", ".join(tables)
        super().__init__(
            f"{names} changed shape after snapshot {read_snapshot}: read the table again and prepare anew",
            tables=list(tables),
            read_snapshot=read_snapshot,
            retry="re-prepare",
        )


class TableRecreatedError(CatalogError):
    """The live table of that name is another incarnation than the one expected."""

    status = 409
    code = "table_recreated"

    def __init__(self, table: str, *, expected: str, live: str) -> None:
        super().__init__(
            f"{table} is another incarnation now: expected {expected}, live is {live}",
            tables=[table],
            retry="re-prepare",
        )


class TableDroppedError(CatalogError):
    """A commit names a table whose last incarnation was dropped."""

    status = 409
    code = "table_dropped"


class OffsetRegressionError(CatalogError):
    """A consumer offset may only move forward."""

    status = 409
    code = "offset_regression"


class ReconciliationRequiredError(CatalogError):
    """A change window crosses a truncate, which no list of added files can express."""

    status = 409
    code = "reconciliation_required"


class IdlessFilesPresentError(CatalogError):
    """A live file is known to lack parquet field ids, so names must keep their meaning."""

    status = 409
    code = "idless_files_present"


class NamespaceNotEmptyError(CatalogError):
    """Only an empty namespace can be dropped."""

    status = 409
    code = "namespace_not_empty"


class CatalogNotEmptyError(CatalogError):
    """A precondition of dropping a catalog failed; `reason` names the first one."""

    status = 409
    code = "catalog_not_empty"

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail, reason=reason)


class ExpiredError(CatalogError):
    """The snapshot lies below the expiry floor."""

    status = 410
    code = "expired"


class InvalidError(CatalogError):
    """The request can be read and means something that is not allowed."""

    status = 422
    code = "validation"


class CorruptDefinitionError(CatalogError):
    """What the database holds of a table cannot be read."""

    status = 500
    code = "corrupt_definition"


class NotBuiltError(CatalogError):
    """The request is specified, and this catalog has no part that could do it."""

    status = 501
    code = "not_implemented"


class CommitQueueTimeoutError(CatalogError):
    """The bounded wait for the catalog lock, or for a handler thread, ran out."""

    status = 503
    code = "commit_queue_timeout"

    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": "1"}
