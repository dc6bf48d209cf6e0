"""A broken promise, and the ways to one that are known and not mended yet.

Each was found by the simulation. A history that ends in one of them is told, and does not count as new; the
entry goes with its mending.
"""

COMMIT_WITHOUT_ROWS = "positions moved on without rows, which leaves their key to a commit that arrives late"
LATE_AND_RECREATED = (
    "an offset commit arrived late, and the table was made again, so that the ledger is silent"
)

OPEN = frozenset({COMMIT_WITHOUT_ROWS, LATE_AND_RECREATED})


class ViolationError(Exception):
    """The service broke its promise. `finding` names a known way to it, empty when it is a new one."""

    def __init__(self, text: str, finding: str = "") -> None:
        super().__init__(text)
        self.finding = finding
