"""The command line: `millpond` runs the service; the other commands are for people."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from millpond import __version__

app = typer.Typer(
    add_completion=False,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    help="Drains one Kafka topic into one table of a hoglake lakehouse, as Parquet in S3, exactly once.",
)


def main() -> None:
    """The console script."""
    app()


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        typer.echo(f"millpond {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _default(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - typer's callback does the work
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,  # noqa: FBT002 - a flag
) -> None:
    """Without a command, run the service."""
    if context.invoked_subcommand is None:
        run()


@app.command()
def run() -> None:
    """Run the service, configured by the environment, until SIGTERM or SIGINT."""
    from millpond.main import run as run_service  # noqa: PLC0415 - --version and --help answer without it

    sys.exit(run_service(os.environ))
