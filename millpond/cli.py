"""The command line: `millpond` runs the service; the other commands are for people."""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from millpond import __version__, cli_quarantine

app = typer.Typer(
    add_completion=False,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    help="Drains one Kafka topic into one table of a hoglake lakehouse, as Parquet in S3, exactly once.",
)
app.add_typer(cli_quarantine.app, name="quarantine")


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
    version: Annotated[  # noqa: ARG001, FBT002 - a flag, whose callback does the work
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Without a command, run the service."""
    if context.invoked_subcommand is None:
        run()


@app.command()
def run() -> None:
    """Run the service, configured by the environment, until SIGTERM or SIGINT."""
    from millpond.main import run as run_service  # noqa: PLC0415 - --version and --help answer without it

    sys.exit(run_service(os.environ))


@app.command()
def verify(
    *,
    rows: Annotated[bool, typer.Option("--rows", help="Also read the table's Parquet files.")] = False,
    against_kafka: Annotated[
        bool, typer.Option("--against-kafka", help="Also compare with the log and the group's offsets.")
    ] = False,
    group: Annotated[
        list[str] | None, typer.Option(help="Whose commits to look at, GROUP_ID if unset; may be repeated.")
    ] = None,
    all_groups: Annotated[
        bool, typer.Option("--all-groups", help="Look at the commits of every group.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (docs/verify.md).")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for everything together.")] = 300,
) -> None:
    """Check that the table holds every record once; writes nothing.

    Exit code 0: it does; 1: it does not; 2: bad configuration; 3: something did not answer in time.
    """
    from millpond.verify import VerifyOptions, run_verify  # noqa: PLC0415 - --help needs none of it

    if group and all_groups:
        raise typer.BadParameter("either --group or --all-groups")
    options = VerifyOptions(
        rows=rows,
        against_kafka=against_kafka,
        groups=tuple(group or ()),
        all_groups=all_groups,
        json=as_json,
        timeout=timeout,
    )
    sys.exit(run_verify(options, os.environ))


class Kafka(StrEnum):
    """Brokers of the local stack."""

    MOCK = "mock"
    APACHE = "apache"


class Store(StrEnum):
    """Object stores of the local stack."""

    SEAWEED = "seaweed"
    MOTO = "moto"


KafkaOption = Annotated[
    Kafka, typer.Option(help="Broker: librdkafka's mock cluster, or Apache Kafka (Java).")
]
StoreOption = Annotated[Store, typer.Option(help="Object store: SeaweedFS, or moto's server.")]


@app.command()
def stack(
    *,
    env_file: Annotated[Path | None, typer.Option(help="Also write the environment here (0600).")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Keep data and logs in this folder.")] = None,
    topic: Annotated[str, typer.Option(help="Topic to create.")] = "events",
    partitions: Annotated[int, typer.Option(min=1, max=10_000, help="Its partitions.")] = 8,
    kafka: KafkaOption = Kafka.MOCK,
    store: StoreOption = Store.SEAWEED,
) -> None:
    """Start a local broker, object store and catalog; print the environment a service on them needs."""
    _need_devstack()
    from millpond.devstack.broker import BrokerKind  # noqa: PLC0415 - an optional extra
    from millpond.devstack.stack import StackOptions  # noqa: PLC0415 - an optional extra
    from millpond.devstack.stack_command import run_stack  # noqa: PLC0415 - an optional extra
    from millpond.devstack.store import StoreKind  # noqa: PLC0415 - an optional extra

    options = StackOptions(
        kafka=BrokerKind(kafka),
        store=StoreKind(store),
        data_dir=data_dir,
        topic=topic,
        table=re.sub(r"[^A-Za-z0-9_-]|^(?=[^A-Za-z_])", "_", topic),  # a name the service takes
        partitions=partitions,
    )
    sys.exit(run_stack(options, env_file=env_file))


@app.command()
def demo(
    *,
    source: Annotated[
        Path | None,
        typer.Option(
            "--input", exists=True, dir_okay=False, help="Records, one JSON object a line, .gz or not."
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep data and logs in .millpond/.")] = False,
    kafka: KafkaOption = Kafka.MOCK,
    store: StoreOption = Store.SEAWEED,
) -> None:
    """Watch real records flow from Kafka into a hoglake table, checked to the last row."""
    _need_devstack()
    from millpond.devstack.broker import BrokerKind  # noqa: PLC0415 - an optional extra
    from millpond.devstack.demo import DemoOptions, run_demo  # noqa: PLC0415 - an optional extra
    from millpond.devstack.store import StoreKind  # noqa: PLC0415 - an optional extra

    folder = Path(".millpond") / f"demo-{datetime.now(UTC):%Y%m%dT%H%M%S}" if keep else None
    options = DemoOptions(source=source, keep=folder, kafka=BrokerKind(kafka), store=StoreKind(store))
    sys.exit(run_demo(options))


def _need_devstack() -> None:
    if any(find_spec(name) is None for name in ("rich", "starlette", "uvicorn", "moto")):
        typer.echo("This command needs the local stack: pip install 'millpond[devstack]'", err=True)
        raise typer.Exit(2)
