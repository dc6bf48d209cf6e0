"""Free loopback ports that no outgoing connection can take in the meantime."""

from __future__ import annotations

import secrets
import socket

LOOPBACK = "127.0.0.1"
# Below the ephemeral range of Linux (32768-60999), so that a client socket never lands on a chosen port.
_FIRST, _END = 10_240, 32_768
_TRIES = 500


def free_port(*, twin_offset: int = 0, taken: frozenset[int] = frozenset()) -> int:
    """A loopback port nothing listens on; with `twin_offset`, the port that far above is free as well.

    The choice is random, so that stacks which start at the same moment rarely meet. `taken` holds ports
    chosen before whose servers do not listen yet.

    Raises:
        OSError: no free port was found in 500 tries.
    """
    for _ in range(_TRIES):
        port = _FIRST + secrets.randbelow(_END - twin_offset - _FIRST)
        wanted = {port, port + twin_offset}
        if not wanted & taken and all(_is_free(each) for each in wanted):
            return port
    raise OSError(f"no free port between {_FIRST} and {_END - 1} on {LOOPBACK}: stop what listens there")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        # As servers do: a port in TIME_WAIT counts as free, one somebody listens on does not.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def is_open(port: int) -> bool:
    """Whether a loopback port accepts connections: the cheap question before a client's dear one."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True
