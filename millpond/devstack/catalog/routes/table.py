"""What an endpoint is: a method, a path under `/v1`, and a function that may block."""

from collections.abc import Callable
from typing import Final, NamedTuple

from millpond.devstack.catalog.call import Call, Reply

CATALOG: Final = "/catalogs/{catalog}"
NAMESPACE: Final = CATALOG + "/namespaces/{namespace}"
TABLE: Final = NAMESPACE + "/tables/{table}"


class Endpoint(NamedTuple):
    """One row of the route table."""

    method: str
    path: str
    handler: Callable[[Call], Reply]
