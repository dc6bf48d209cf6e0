"""A broker, an object store and a catalog on loopback, for development, the demo and the tests."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millpond.devstack.broker import Broker, BrokerKind
    from millpond.devstack.errors import DevstackError
    from millpond.devstack.stack import Stack, StackOptions
    from millpond.devstack.store import ObjectStore, StoreKind

__all__ = [
    "Broker",
    "BrokerKind",
    "DevstackError",
    "ObjectStore",
    "Stack",
    "StackOptions",
    "StoreKind",
]

_HOMES = {
    "Broker": "broker",
    "BrokerKind": "broker",
    "DevstackError": "errors",
    "ObjectStore": "store",
    "Stack": "stack",
    "StackOptions": "stack",
    "StoreKind": "store",
}


def __getattr__(name: str) -> Any:
    # Late, because each part's process imports this package and must not pay for the S3 client (0.4 s).
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
