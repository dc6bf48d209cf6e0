"""Ways to break the promise that are known and not mended yet; an entry goes with its mending.

Each was found by the simulation. A history that ends in one of them is told, and does not count as new.
"""

LATE_OFFSET_COMMIT = "an offset commit arrived late, and its sender believes that the group is its own"
STALE_LOG_ENDS = "the ends of the log are older than what was published meanwhile"
REWOUND_BY_NOBODY = "a receipt is taken for a rewound group, since a silent partition made the ledger be read"
COMMIT_WITHOUT_ROWS = "positions moved on without rows, which leaves their key to a commit that arrives late"
MIXED_TOPICS = "some partitions are settled in the new topic, so offsets of the old one count for the others"

OPEN = frozenset({LATE_OFFSET_COMMIT, STALE_LOG_ENDS, REWOUND_BY_NOBODY, COMMIT_WITHOUT_ROWS, MIXED_TOPICS})
