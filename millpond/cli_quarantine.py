"""The command line of `millpond quarantine`."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from millpond.quarantine import Wanted

app = typer.Typer(
    no_args_is_help=True, help="Look at the records that did not go in as they came, and produce them again."
)

Reasons = Annotated[list[str] | None, typer.Option("--reason", help="Only this reason; may be repeated.")]
TopicOption = Annotated[str | None, typer.Option(help="Only records of this topic.")]
PartitionOption = Annotated[int | None, typer.Option(min=0, help="Only this partition.")]
OffsetOption = Annotated[int | None, typer.Option(min=0, help="Only this offset.")]
Since = Annotated[
    str | None,
    typer.Option(help="Only what came since: an ISO 8601 instant with its zone, or an age like 2h."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON (docs/quarantine.md).")]
Timeout = Annotated[float, typer.Option(min=1, help="Seconds for everything together.")]


@app.command("list")
def list_(
    *,
    reason: Reasons = None,
    topic: TopicOption = None,
    since: Since = None,
    as_json: AsJson = False,
    timeout: Timeout = 300,
) -> None:
    """Count what is in quarantine, by reason and partition."""
    from millpond.quarantine import ListOptions, run_list  # noqa: PLC0415 - --help needs none of it

    wanted = _wanted(reason, topic, since)
    sys.exit(run_list(ListOptions(wanted=wanted, json=as_json, timeout=timeout), os.environ))


@app.command()
def show(
    *,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Records at most.")] = 20,
    reason: Reasons = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    offset: OffsetOption = None,
    since: Since = None,
    as_json: AsJson = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write the value of one record, byte by byte; with --offset.")
    ] = False,
    timeout: Timeout = 300,
) -> None:
    """Show records that are in quarantine, newest first."""
    from millpond.quarantine import ShowOptions, run_show  # noqa: PLC0415 - --help needs none of it

    if offset is not None and partition is None:
        raise typer.BadParameter("--offset needs --partition: each partition counts its own")
    if raw and (offset is None or as_json):
        raise typer.BadParameter("--raw needs --partition and --offset, and goes without --json")
    options = ShowOptions(
        wanted=_wanted(reason, topic, since, partition, offset),
        limit=limit,
        json=as_json,
        raw=raw,
        timeout=timeout,
    )
    sys.exit(run_show(options, os.environ))


@app.command()
def replay(
    *,
    to: Annotated[str, typer.Option("--to", help="The topic to produce to.")],
    reason: Reasons = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    offset: OffsetOption = None,
    since: Since = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask back.")] = False,
    allow_source: Annotated[
        bool, typer.Option("--allow-source", help="Allow KAFKA_TOPIC itself: what is still wrong comes back.")
    ] = False,
    timeout: Timeout = 300,
) -> None:
    """Produce records to a topic as they came; nothing in quarantine is marked or deleted."""
    from millpond.quarantine import ReplayOptions, run_replay  # noqa: PLC0415 - --help needs none of it

    if offset is not None and partition is None:
        raise typer.BadParameter("--offset needs --partition: each partition counts its own")
    options = ReplayOptions(
        to=to,
        wanted=_wanted(reason, topic, since, partition, offset),
        dry_run=dry_run,
        allow_source=allow_source,
        confirm=None if yes else typer.confirm,
        timeout=timeout,
    )
    sys.exit(run_replay(options, os.environ))


def _wanted(
    reasons: list[str] | None,
    topic: str | None,
    since: str | None,
    partition: int | None = None,
    offset: int | None = None,
) -> Wanted:
    from millpond.quarantine import Wanted, parse_since  # noqa: PLC0415 - --help needs none of it

    try:
        instant = None if since is None else parse_since(since, datetime.now(UTC))
    except ValueError as error:
        raise typer.BadParameter(f"--since: {error}") from error
    return Wanted(tuple(reasons or ()), topic, partition, offset, instant)
