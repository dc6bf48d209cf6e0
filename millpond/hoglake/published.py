"""What was really published, as the catalog tells it: receipts by key, ledgers by snapshot (design 3)."""

from __future__ import annotations

from pyhoglake import Catalog

from millpond.errors import Fatal
from millpond.hoglake.client import CatalogClient
from millpond.hoglake.identity import Destination
from millpond.hoglake.ledger import read_ledger
from millpond.sink import History, Published, Source

_PAGE = 10_000  # the most a server gives at once (contract 4.7)


def read_receipt(
    client: CatalogClient, catalog: Catalog, key: str, source: Source, destination: Destination
) -> Published | None:
    """The flush published under `key`, with the ranges its snapshot's message gives; None when none was.

    Raises:
        Fatal: there is a receipt, but what it covers can no longer be read.
        HoglakeError, httpx.HTTPError: the server did not say.
    """
    snapshot_id = client.receipt(destination.catalog, key)
    if snapshot_id is None:
        return None
    snapshot = next(catalog.snapshots(after=snapshot_id - 1, limit=1), None)
    ledger = read_ledger(snapshot.message) if snapshot and snapshot.snapshot_id == snapshot_id else None
    if ledger is None or source.topic not in ledger.topics:
        raise Fatal(
            f"a flush from our positions was published as snapshot {snapshot_id}, but what it covers "
            "can no longer be read (expired, or not written by millpond); compare table "
            f"{destination.namespace}.{destination.table} with the topic, then commit the "
            "group's offsets by hand or set MILLPOND_REPLAY_EPOCH to publish again from here"
        )
    return Published(snapshot_id, ledger.topics[source.topic])


def read_history(catalog: Catalog, snapshot: int, source: Source, destination: Destination) -> History:
    """The flushes of `source` into `destination` in the snapshots after `snapshot`, oldest first.

    Raises:
        HoglakeError, httpx.HTTPError: the server did not say.
    """
    published, until = [], snapshot
    for entry in catalog.snapshots(after=snapshot, limit=_PAGE):
        until = entry.snapshot_id
        ledger = read_ledger(entry.message)
        if ledger is not None and ledger.is_of(source, destination):
            published.append(Published(until, ledger.topics[source.topic]))
    # The floor is the oldest snapshot kept; read after the walk, so that none can expire unseen.
    floor = catalog.options().earliest_snapshot_id
    return History(published, until, is_complete=floor <= snapshot + 1)
