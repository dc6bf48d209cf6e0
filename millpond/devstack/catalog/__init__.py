"""A development catalog that speaks the hoglake wire contract: Starlette over SQLite, on loopback.

It asks nobody who they are. Without an object store it registers files and never looks into them: deferred
statistics stay `pending`, `cleanup` leaves objects where they are, `compact` is refused, and `/v1/info` says
so.
"""

from millpond.devstack.catalog.app import create_app
from millpond.devstack.catalog.settings import CatalogSettings

__all__ = ["CatalogSettings", "create_app"]
