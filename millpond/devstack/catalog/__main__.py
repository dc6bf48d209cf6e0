"""`python -m millpond.devstack.catalog`: start the development catalog."""

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import Final

from millpond.devstack.catalog.server import NotLoopbackError, serve
from millpond.devstack.catalog.settings import CatalogSettings, ObjectStoreSettings
from millpond.devstack.catalog.storage import DatabaseUnusableError

# In the environment, because arguments can be read by everyone on the machine.
_ACCESS_KEY: Final = "HOGLAKE_S3_ACCESS_KEY"
_SECRET_KEY: Final = "HOGLAKE_S3_SECRET_KEY"  # noqa: S105  # the name of a variable


def main(arguments: list[str] | None = None) -> int:
    """Run until told to stop; 0 after an orderly stop, 2 when the settings cannot work."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        settings = CatalogSettings(
            database=options.database,
            request_log=options.request_log,
            commit_lock_timeout_ms=options.commit_lock_timeout_ms,
            refuse_blind_partitioned_appends=options.refuse_blind_partitioned_appends,
            require_attribution=options.require_attribution,
            receipt_retention_seconds=options.receipt_retention_seconds,
            handler_threads=options.handler_threads,
            object_store=_object_store(options),
            control=options.control,
        )
        serve(settings, host=options.host, port=options.port)
    except (NotLoopbackError, DatabaseUnusableError, ValueError, OverflowError, OSError) as error:
        sys.stderr.write(f"development catalog: {error}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m millpond.devstack.catalog",
        description="A development catalog that speaks the hoglake wire contract, on loopback only.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address (default: %(default)s)")
    parser.add_argument("--port", type=int, required=True, help="0 takes a free port; the banner names it")
    parser.add_argument("--database", type=Path, required=True, help="the SQLite file, made when absent")
    parser.add_argument("--request-log", type=Path, help="append one JSON object a request to this file")
    parser.add_argument(
        "--commit-lock-timeout-ms",
        type=int,
        default=30_000,
        help="bounded wait before a 503; 0 waits for ever",
    )
    parser.add_argument(
        "--handler-threads", type=int, default=32, help="requests at work at once (default: %(default)s)"
    )
    parser.add_argument(
        "--refuse-blind-partitioned-appends",
        action="store_true",
        help="422 for partition values without a read_snapshot",
    )
    parser.add_argument(
        "--require-attribution",
        action="store_true",
        help="insist on author and message where servers of the 1.4 line do",
    )
    parser.add_argument(
        "--receipt-retention-seconds",
        type=int,
        default=7 * 24 * 3600,
        help="how long cleanup leaves receipts alone; 0 keeps them for ever",
    )
    parser.add_argument(
        "--control", action="store_true", help="open /_control: faults on order, for tests; not hoglake"
    )
    parser.add_argument(
        "--s3-endpoint",
        help="the object store for hydration, compaction and cleanup; its keys come from"
        f" {_ACCESS_KEY} and {_SECRET_KEY}",
    )
    parser.add_argument("--s3-region", default="us-east-1", help="(default: %(default)s)")
    parser.add_argument(
        "--hydrator-interval-ms", type=int, default=1000, help="how often footers are read; 0 is never"
    )
    parser.add_argument(
        "--hydrator-min-file-bytes", type=int, default=2**20, help="smaller files get no statistics from it"
    )
    return parser


def _object_store(options: argparse.Namespace) -> ObjectStoreSettings | None:
    if options.s3_endpoint is None:
        return None
    keys = [os.environ.get(name, "") for name in (_ACCESS_KEY, _SECRET_KEY)]
    if not all(keys):
        raise ValueError(f"--s3-endpoint needs {_ACCESS_KEY} and {_SECRET_KEY} in the environment")
    return ObjectStoreSettings(
        endpoint=options.s3_endpoint,
        region=options.s3_region,
        access_key=keys[0],
        secret_key=keys[1],
        hydrator_interval_ms=options.hydrator_interval_ms,
        hydrator_min_file_bytes=options.hydrator_min_file_bytes,
    )


if __name__ == "__main__":
    sys.exit(main())
