"""Ways to break the promise that are known and not mended yet; an entry goes with its mending.

Each was found by the simulation. A history that ends in one of them is told, and does not count as new.
"""

COMMIT_WITHOUT_ROWS = "positions moved on without rows, which leaves their key to a commit that arrives late"
LEDGER_GAP = "an offset went back to before a gap of the ledger, and the walk does not go on behind the gap"
MIXED_TOPICS = "some partitions are settled in the new topic, so offsets of the old one count for the others"
REWOUND_BY_NOBODY = "a receipt counts as a rewind by what is known of partitions that it does not move"
UNTOLD_EXPIRY = "the group is silent and snapshots have expired, and nobody is told"

OPEN = frozenset({COMMIT_WITHOUT_ROWS, LEDGER_GAP, MIXED_TOPICS, REWOUND_BY_NOBODY, UNTOLD_EXPIRY})
