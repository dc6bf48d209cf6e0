"""Become another program that the kernel kills when its parent dies, however the parent dies.

Run by file name (`python -I -S tether.py PARENT_PID COMMAND...`), so it must import nothing of ours: it
starts in about 15 ms. Linux only has the mechanism; elsewhere the command runs untethered.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PARENT_GONE = 125


def main() -> None:
    """Tie this process to its parent and replace it by the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have died before the call above; nobody would ever signal that.
    if os.getppid() != parent:
        sys.exit(_PARENT_GONE)
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command comes from the stack's own parts
    except OSError as error:
        sys.exit(f"{command[0]} could not be started: {error.strerror}")


if __name__ == "__main__":
    main()
