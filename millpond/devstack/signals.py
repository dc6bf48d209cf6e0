"""Let SIGTERM end a program the way Ctrl-C does: by unwinding it, once."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_STOPS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def unwinding_on_signals() -> Iterator[None]:
    """Inside, the first SIGTERM or SIGINT raises KeyboardInterrupt; later ones leave the clean-up alone.

    For the main thread, which is the only one Python runs signal handlers in.
    """

    def unwind(*_: object) -> None:
        for stop in _STOPS:
            signal.signal(stop, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {stop: signal.signal(stop, unwind) for stop in _STOPS}
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)
