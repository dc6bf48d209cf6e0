"""Ways to break the promise that are known and not mended yet; an entry goes with its mending.

Each was found by the simulation. A history that ends in one of them is told, and does not count as new.
"""

COMMIT_WITHOUT_ROWS = "positions moved on without rows, which leaves their key to a commit that arrives late"
LATE_AND_RECREATED = (
    "an offset commit arrived late, and the table was made again, so that the ledger is silent"
)

OPEN = frozenset({COMMIT_WITHOUT_ROWS, LATE_AND_RECREATED})
