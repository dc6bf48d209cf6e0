"""The identity of a flush: a key made of where it starts (design 3)."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass

from millpond.offsets import Positions
from millpond.sink import Source

KEY_VERSION = 1
_NAMESPACE = uuid.UUID("0b4c3a0e-8f0d-5f55-9c52-6d1f6b1d7a43")


@dataclass(frozen=True, slots=True)
class Destination:
    """One incarnation of one table. Dropped and made again it is another, by its uuid."""

    catalog: str
    namespace: str
    table: str
    table_uuid: str


def flush_key(destination: Destination, source: Source, start: Positions) -> str:
    """The idempotency key of the flush that starts at `start`, wherever it ends.

    The catalog accepts one publication per key, so of two processes at the same positions one wins and
    the other learns it, although each may cut its flush at another place. `start` names every owned
    partition, also those that do not move: else two flushes could share a key.
    """
    identity = {
        "v": KEY_VERSION,
        "catalog": destination.catalog,
        "namespace": destination.namespace,
        "table": destination.table,
        "table_uuid": destination.table_uuid.lower(),
        "cluster": source.cluster_id,
        "topic": source.topic,
        "topic_id": source.topic_id,
        "group": source.group_id,
        "epoch": source.replay_epoch,
        "positions": {str(partition): offset for partition, offset in sorted(start.items())},
    }
    canonical = json.dumps(identity, separators=(",", ":"), sort_keys=True, ensure_ascii=True)
    return str(uuid.uuid5(_NAMESPACE, canonical))
