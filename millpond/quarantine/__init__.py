"""Records that did not go in as they came: what there is of them, and the way back into a topic."""

from millpond.quarantine.command import (
    ListOptions,
    ReplayOptions,
    ShowOptions,
    run_list,
    run_replay,
    run_show,
)
from millpond.quarantine.wanted import Wanted, parse_since

__all__ = [
    "ListOptions",
    "ReplayOptions",
    "ShowOptions",
    "Wanted",
    "parse_since",
    "run_list",
    "run_replay",
    "run_show",
]
