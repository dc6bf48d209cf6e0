"""A development catalog that speaks the hoglake wire contract: Starlette over SQLite, on loopback.

It asks nobody who they are. It registers files and never looks into them: there is no object store, hydrator
or compaction behind it, so deferred statistics stay `pending`, `cleanup` leaves objects where they are, and
`/v1/info` says so.
"""

from millpond.devstack.catalog.app import create_app
from millpond.devstack.catalog.settings import CatalogSettings

__all__ = ["CatalogSettings", "create_app"]
