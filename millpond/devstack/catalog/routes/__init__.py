"""The endpoints by what they are about; `ROUTES` is the whole table."""

from millpond.devstack.catalog.routes import (
    catalogs,
    commits,
    consumers,
    creations,
    maintenance,
    tables,
    views,
)
from millpond.devstack.catalog.routes.table import Endpoint

ROUTES: tuple[Endpoint, ...] = (
    *catalogs.ENDPOINTS,
    *tables.ENDPOINTS,
    *views.ENDPOINTS,
    *commits.ENDPOINTS,
    *consumers.ENDPOINTS,
    *creations.ENDPOINTS,
    *maintenance.ENDPOINTS,
)

__all__ = ["ROUTES", "Endpoint"]
