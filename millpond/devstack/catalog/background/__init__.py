"""What a catalog does with objects, when it may: read footers of deferred files, compact, delete.

Optional: importing this costs pyarrow, and a catalog without an object store never does.
"""

from millpond.devstack.catalog.background.work import ObjectWork

__all__ = ["ObjectWork"]
